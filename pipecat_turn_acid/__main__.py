# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""The command: ``python -m pipecat_turn_acid``."""

import sys


def main() -> int:
    """Run the command line.

    Returns:
        The exit status: 0 if all is well, 1 if something was found, 2 if it could not run.
    """
    try:
        from pipecat_turn_acid.testing.cli import main as run
    except ModuleNotFoundError as error:
        print(
            f"{error}. The command needs what the openai extra brings: "
            "pip install 'pipecat-turn-acid[openai]'",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

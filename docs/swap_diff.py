# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Keep the diff of the two swap examples in ``docs/examples.md`` true.

python docs/swap_diff.py            print the diff
python docs/swap_diff.py --write    put it into the page
"""

import difflib
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "examples.md"
STOCK: Final = "examples/swap_stock.py"
TRANSACTIONAL: Final = "examples/swap.py"

_BLOCK: Final = re.compile(r"(<!-- swap-diff -->\n```diff\n)(.*?)(```\n)", re.DOTALL)


def swap_diff() -> str:
    """The diff of the code, from the first import on."""
    before, after = (
        (ROOT / name).read_text().partition('"""\n\n')[2].splitlines(keepends=True)
        for name in (STOCK, TRANSACTIONAL)
    )
    lines = list(difflib.unified_diff(before, after, STOCK, TRANSACTIONAL, n=0))
    # What stands where is not what a reader looks for.
    return "".join(re.sub(r"^@@ .*", "@@", line) for line in lines)


def shown(page: str) -> str:
    """The diff that a page shows; empty if it shows none."""
    found = _BLOCK.search(page)
    return found.group(2) if found else ""


def main() -> None:
    """Print the diff, or write it into the page."""
    if "--write" in sys.argv:
        PAGE.write_text(
            _BLOCK.sub(lambda m: m.group(1) + swap_diff() + m.group(3), PAGE.read_text())
        )
    else:
        print(swap_diff(), end="")


if __name__ == "__main__":
    main()

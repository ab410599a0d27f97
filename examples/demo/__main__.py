# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Hold one call with the same bot twice, and talk over it: stock Pipecat beside transactional.

    make demo                              the whole thing, on speech
    make demo DEMO_ARGS=--text             without audio, and without the speech model
    OPENAI_API_KEY=... make demo           against the real service

Nothing is asked for but what the demo needs: without a key, a scripted model answers.
"""

import sys

from examples.demo.main import main

if __name__ == "__main__":
    sys.exit(main())

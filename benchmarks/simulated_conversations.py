# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Measure how many simulated conversations one core plays in a second.

    python benchmarks/simulated_conversations.py [--seconds 10] [--kit stock|transactional]

Processor time is measured, not elapsed time, so another program on the machine hardly matters.
Each figure is that of whole plays, with everything: the bot is built, the user speaks, the barge-in
comes, all comes to rest, the outcome is judged, the bot is taken down.
"""

import argparse
import gc
import platform
import time

from pipecat_turn_acid.testing.conversation import STOCK, TRANSACTIONAL, At, Conversation, Kit, play
from pipecat_turn_acid.testing.conversations import FIVE
from pipecat_turn_acid.testing.judge import judge


def measure(conversation: Conversation, kit: Kit, at: At | None, seconds: float) -> float:
    """Return how many plays a core does in a second."""
    judge(play(conversation, kit, at))
    gc.collect()
    gc.freeze()
    plays, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        judge(play(conversation, kit, at))
        plays += 1
    return plays / (time.process_time() - began)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=4.0, help="per figure")
    parser.add_argument("--kit", choices=("stock", "transactional"), default="transactional")
    options = parser.parse_args()
    kit = STOCK if options.kit == "stock" else TRANSACTIONAL
    print(f"{platform.python_implementation()} {platform.python_version()}, {kit.name} classes")
    print(f"{'conversations per second and core':<36}{'no barge-in':>12}{'with one':>12}")
    for conversation in FIVE:
        for voice in ("text", "words", "sentences"):
            spoken = conversation.but(voice=voice)
            name = f"{conversation.name}, {'without audio' if voice == 'text' else voice}"
            figures = [measure(spoken, kit, at, options.seconds) for at in (None, At(3.6))]
            print(f"{name:<36}" + "".join(f"{figure:>12.1f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()

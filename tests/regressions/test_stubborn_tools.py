# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Tools that do not stop when they are cancelled."""

import pytest

from pipecat_turn_acid.testing import scenarios
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, At, play
from pipecat_turn_acid.testing.judge import judge


@pytest.mark.parametrize("seconds", (3.37, 3.67, 4.07))
def test_an_interruption_reaches_the_voice_before_the_next_word(seconds: float):
    """10 ms before a word is due, waiting for a tool of the cut turn would let it be heard."""
    outcome = play(scenarios.stubborn, TRANSACTIONAL, At(seconds))

    assert judge(outcome) == []

# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Nothing is turned away, dropped or mended where nobody interrupts."""

import pytest

from pipecat_turn_acid import TurnJournal
from pipecat_turn_acid.journal import JournalEvent
from pipecat_turn_acid.testing import conversations
from pipecat_turn_acid.testing.conversation import TRANSACTIONAL, play, usual_pipeline


@pytest.mark.parametrize("conversation", conversations.FIVE, ids=lambda one: one.name)
def test_without_a_barge_in_nothing_is_fenced_rolled_back_or_repaired(conversation):
    """A run that is asked for twice would be fenced once, and is not asked for twice."""
    journal = TurnJournal()

    def watched_pipeline(bot):
        journal.watch(bot.aggregators)
        return usual_pipeline(bot)

    play(conversation.but(assemble=watched_pipeline), TRANSACTIONAL)

    happened = {entry.event for entry in journal.entries}
    assert JournalEvent.RESPONSE_ENDED in happened
    assert not happened & {
        JournalEvent.FENCED,
        JournalEvent.REPAIRED,
        JournalEvent.RESPONSE_CUT,
        JournalEvent.ROUND_ROLLED_BACK,
    }

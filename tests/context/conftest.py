# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

import pytest

from pipecat_turn_acid import TransactionalLLMContext


@pytest.fixture
def context():
    return TransactionalLLMContext()


@pytest.fixture
def events(context):
    """What the context tells, as it happens."""
    heard: list = []
    context.add_listener(heard.append)
    return heard


@pytest.fixture
def tool_call():
    def make(tool_call_id, name="look_up", arguments="{}"):
        function = {"name": name, "arguments": arguments}
        return {"id": tool_call_id, "type": "function", "function": function}

    return make

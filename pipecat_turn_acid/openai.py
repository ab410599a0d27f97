# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""OpenAI's chat completions, one turn at a time."""

from pipecat.services.openai.llm import OpenAILLMService

from pipecat_turn_acid.chat_completions import ChatCompletionsMixin


class TransactionalOpenAILLMService(ChatCompletionsMixin, OpenAILLMService):
    """An `OpenAILLMService` that runs, calls tools and reports for one turn at a time.

    Use it in place of `OpenAILLMService`, with the same arguments. Arguments of a
    call that are not JSON do not lose the call: it is answered with an error that
    the model can react to.
    """

# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Everything private that the testing package needs from Pipecat and from the standard library.

Each name that is not public stands here and nowhere else, with a test in
``tests/testing/test_compat.py`` that fails when a release moves it.
"""

import collections
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pipecat.utils.time
import pipecat.utils.utils


@contextmanager
def fresh_object_numbers() -> Iterator[None]:
    """Number frames and processors from zero, and go on with the old numbers afterwards."""
    module: Any = pipecat.utils.utils
    saved = module._COUNTS, module._ID
    module._COUNTS, module._ID = collections.defaultdict(itertools.count), itertools.count()
    try:
        yield
    finally:
        module._COUNTS, module._ID = saved


@contextmanager
def timestamps_from(datetime_module: Any) -> Iterator[None]:
    """Make Pipecat's ISO timestamps read another ``datetime`` module.

    Args:
        datetime_module: What ``pipecat.utils.time`` sees as ``datetime``.
    """
    module: Any = pipecat.utils.time
    saved = module.datetime
    module.datetime = datetime_module
    try:
        yield
    finally:
        module.datetime = saved


def replace_openai_client(llm: Any, client: Any) -> None:
    """Make an OpenAI LLM service talk through another client.

    Args:
        llm: The service.
        client: An ``openai.AsyncOpenAI``.
    """
    llm._client = client


def openai_client(llm: Any) -> Any:
    """Return the client an OpenAI LLM service talks through.

    Args:
        llm: The service.
    """
    return llm._client

# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Everything private that the testing package needs from Pipecat and from the standard library.

Each name that is not public stands here and nowhere else, with a test in
``tests/testing/test_compat.py`` that fails when a release moves it.
"""

import collections
import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pipecat.utils.time
import pipecat.utils.utils
from loguru import logger


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


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Silence what Pipecat and this package log, and log as before afterwards."""
    core: Any = getattr(logger, "_core")  # noqa: B009 - private, and typed as absent
    saved = core.activation_list, core.activation_none, dict(core.enabled)
    for name in ("pipecat", "pipecat_turn_acid"):
        logger.disable(name)
    try:
        yield
    finally:
        with core.lock:
            core.activation_list, core.activation_none, core.enabled = saved


def with_call_ids(flow_manager: type[Any], call_id: ContextVar[str]) -> type[Any]:
    """A flow manager whose handlers can tell which call they are running for.

    Args:
        flow_manager: The class.
        call_id: Holds the call's id while a handler runs.
    """

    class Identifying(flow_manager):
        async def _create_transition_func(self, name: str, handler: Any) -> Any:
            plain = await super()._create_transition_func(name, handler)

            @functools.wraps(plain)
            async def transition_func(params: Any) -> None:
                call_id.set(params.tool_call_id)
                await plain(params)

            return transition_func

    Identifying.__name__ = flow_manager.__name__
    return Identifying


def pending_transition(flow_manager: Any) -> Any:
    """What a stock flow manager still means to do.

    Args:
        flow_manager: The manager.
    """
    return flow_manager._pending_transition

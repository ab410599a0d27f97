# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""Every private name that the testing package leans on is where it is expected."""

import collections
import datetime
import types

import pipecat.utils.time
import pipecat.utils.utils
from loguru import logger

from pipecat_turn_acid.testing import _compat


def test_pipecat_numbers_its_objects_from_two_module_globals():
    module = pipecat.utils.utils
    counts, numbers = module._COUNTS, module._ID
    assert isinstance(counts, collections.defaultdict)
    with _compat.fresh_object_numbers():
        assert [module.obj_id(), module.obj_id()] == [0, 1]
        assert module.obj_count(object()) == 0
    assert module._COUNTS is counts and module._ID is numbers


def test_pipecat_reads_its_timestamps_from_a_module_it_imports():
    class Fixed(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(2000, 1, 1, tzinfo=tz)

    fake = types.SimpleNamespace(datetime=Fixed, UTC=datetime.UTC)
    with _compat.timestamps_from(fake):
        assert pipecat.utils.time.time_now_iso8601() == "2000-01-01T00:00:00.000+00:00"
    assert vars(pipecat.utils.time)["datetime"] is datetime


def test_loguru_keeps_what_is_disabled_in_its_core():
    core = getattr(logger, "_core")  # noqa: B009
    before = core.activation_list, core.activation_none, dict(core.enabled)
    with _compat.quiet_logging():
        assert core.activation_list != before[0]
    assert (core.activation_list, core.activation_none, core.enabled) == before

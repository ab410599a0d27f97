# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

import pytest

from pipecat_turn_acid import _compat

pytest_plugins = ["pipecat_turn_acid.testing.plugin"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "since(major, minor): what is tested, or is compared with, is of that Pipecat or newer",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("since"):
            if mark.args > _compat.PIPECAT:
                since = ".".join(map(str, mark.args))
                item.add_marker(pytest.mark.skip(reason=f"is of Pipecat {since} and newer"))

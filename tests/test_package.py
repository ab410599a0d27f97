# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What someone gets who installs and imports the package."""

import functools
import importlib.metadata
import importlib.resources
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pipecat_turn_acid

CLASSES = [
    "TransactionalFlowManager",
    "TransactionalLLMAssistantAggregator",
    "TransactionalLLMContext",
    "TransactionalLLMContextAggregatorPair",
    "TransactionalLLMMixin",
    "TransactionalLLMUserAggregator",
    "TransactionalOpenAILLMService",
    "TurnJournal",
    "TurnPolicy",
]
FUNCTIONS = ["side_effects", "transactional"]
NEEDS_OPENAI_SERVICE = {"TransactionalOpenAILLMService"}
NEEDS_FLOWS = {"TransactionalFlowManager"}


@functools.cache
def modules_loaded_by(statement: str) -> frozenset[str]:
    """Names of the modules that `statement` loads in a fresh interpreter."""
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return frozenset(json.loads(run.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def project() -> dict:
    path = Path(__file__).parent.parent / "pyproject.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]


def test_importing_the_package_loads_neither_openai_nor_flows():
    """A bot on another provider and without Flows does not pay for either at start-up."""
    loaded = modules_loaded_by("import pipecat_turn_acid")

    assert "pipecat_turn_acid" in loaded
    assert not {"openai", "pipecat.flows", "pipecat.services.openai"} & loaded


@pytest.mark.parametrize("name", sorted({*CLASSES, *FUNCTIONS} - NEEDS_OPENAI_SERVICE))
def test_a_name_loads_no_openai_service_that_it_does_not_need(name):
    """A bot on another provider never loads OpenAI's client."""
    loaded = modules_loaded_by(f"from pipecat_turn_acid import {name}")

    assert not [module for module in loaded if module.startswith("pipecat.services.openai")]


@pytest.mark.parametrize("name", sorted({*CLASSES, *FUNCTIONS} - NEEDS_FLOWS))
def test_a_name_loads_no_flows_that_it_does_not_need(name):
    """A bot without Flows never loads Flows."""
    loaded = modules_loaded_by(f"from pipecat_turn_acid import {name}")

    assert not [module for module in loaded if module.startswith("pipecat.flows")]


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_no_name_of_a_bot_loads_the_testing_package(name):
    """A bot in production needs no test tools installed."""
    loaded = modules_loaded_by(f"from pipecat_turn_acid import {name}")

    assert not loaded & {"pipecat_turn_acid.testing", "pytest", "hypothesis"}


def test_the_core_loads_no_pipecat_no_event_loop_and_no_logger():
    """The rules can be read, tested and reused without any of what runs them."""
    loaded = modules_loaded_by("import pipecat_turn_acid.core")

    assert "pipecat_turn_acid.core" in loaded
    assert not {"asyncio", "logging", "loguru", "pipecat", "threading"} & loaded
    others = {name for name in loaded if name.startswith("pipecat_turn_acid.")}
    assert {name for name in others if not name.startswith("pipecat_turn_acid.core")} == set()


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_imported_from_the_top_under_its_own_name(name):
    """Migrating is one search and replace, and the class in a traceback is the one in the code."""
    cls = getattr(pipecat_turn_acid, name)

    assert isinstance(cls, type)
    assert cls.__name__ == name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_imported_from_the_top_under_its_own_name(name):
    function = getattr(pipecat_turn_acid, name)

    assert callable(function)
    assert function.__name__ == name


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_public_names_are_listed_before_they_are_used(name):
    """Completion in an editor or a shell shows them, although they load on first use."""
    assert name in pipecat_turn_acid.__all__
    assert name in dir(pipecat_turn_acid)


def test_every_listed_name_exists():
    """`from pipecat_turn_acid import *` works."""
    for name in pipecat_turn_acid.__all__:
        assert getattr(pipecat_turn_acid, name) is not None


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    """A typing mistake reads as one, not as a failure of lazy loading."""
    with pytest.raises(AttributeError, match="TransactionalLLMContxt"):
        pipecat_turn_acid.TransactionalLLMContxt  # noqa: B018  # pyright: ignore


def test_the_installed_package_carries_its_type_marker():
    """Type checkers use our annotations only if `py.typed` is in the wheel."""
    assert importlib.resources.files("pipecat_turn_acid").joinpath("py.typed").is_file()


def test_the_installed_version_is_the_one_of_the_project(project):
    """A bug report that names the version names this code."""
    assert importlib.metadata.version("pipecat-turn-acid") == project["version"] == "0.1.0"


def test_the_metadata_names_license_python_and_pipecat():
    """Installers refuse a Python or a Pipecat that the package does not work with."""
    metadata = importlib.metadata.metadata("pipecat-turn-acid")

    assert metadata["License-Expression"] == "BSD-2-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    always = [
        re.sub(r"\s", "", requirement)
        for requirement in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in requirement
    ]
    assert always == ["pipecat-ai<2,>=1.12"]


def test_the_promised_extras_exist(project):
    """`pip install "pipecat-turn-acid[openai]"` warns of nothing."""
    provided = importlib.metadata.metadata("pipecat-turn-acid").get_all("Provides-Extra", [])

    assert {"daily", "dev", "openai", "silero", "test"} <= set(provided)
    assert sorted(provided) == sorted(project["optional-dependencies"])


def test_the_distribution_installs_one_package_and_its_license():
    """Nothing of ours ends up beside the user's own `tests` or `examples`."""
    files = importlib.metadata.files("pipecat-turn-acid") or []
    top = {file.parts[0] for file in files if file.suffix != ".pth" and ".." not in file.parts}

    info = {name for name in top if name.endswith(".dist-info")}
    assert len(info) == 1
    assert top - info <= {"pipecat_turn_acid"}
    assert [file for file in files if file.name == "LICENSE"]

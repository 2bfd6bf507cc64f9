"""`make mutants` changes what it names, wherever that is known; its table follows the code."""

import importlib
import inspect
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from spindle.model.waiting import Waiting
from tests.mutants.weakened import ALONE, MUTANTS, Mutant
from tests.unit.test_safety_page import RULES

ROOT = Path(__file__).resolve().parents[2]
_LOOK = """
from tests.mutants.weakened import MUTANTS, install
import spindle.proposals.check, spindle.moves.execute, spindle.reconcile.plan
from spindle.disks.rules import may_clear
for mutant in MUTANTS:
    install(mutant)
from spindle.disks.preflight_findings import may_clear as of_a_step
from spindle.model.replica_index import ReplicaIndex
from spindle.model.view import KafkaView
from spindle.disks.rules import Cleared
recorded = [Cleared("an id", "a volume", "a file system")]
assert of_a_step("an id", "another volume", "another one", recorded) is None, "known to a step by its own name"
assert may_clear("an id", "another volume", "another one", recorded) is None, "imported by name before"
assert ReplicaIndex(KafkaView(error="away")).known is True, "a property"
assert spindle.reconcile.plan._NEEDED == frozenset(), "a constant"
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_its_tests_are_there_and_its_rule_too(mutant: Mutant) -> None:
    assert mutant.rule in RULES
    assert mutant.tests
    assert [file for file in mutant.tests if not (ROOT / "tests" / file).exists()] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_its_answer_is_one_that_the_code_could_give(mutant: Mutant) -> None:
    """Otherwise a test fails because of an error, not because of the rule."""
    module, _, path = mutant.target.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    weakened = mutant.weaken(found)
    if getattr(weakened, ALONE, False):
        assert _fits(weakened(), get_type_hints(found)["return"])


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as deep as a tuple of fixed length; None is the answer of a refusal that is none."""
    if value is None:
        return hint in (NoneType, Waiting) or NoneType in get_args(hint)
    parts = get_args(hint)
    if get_origin(hint) is tuple and value and ... not in parts:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_fits, value, parts))
    return isinstance(value, get_origin(hint) or hint)


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_names_those_that_exist() -> None:
    page = (ROOT / "docs/testing.md").read_text()
    section = page[page.index("\n## Mutants") : page.index("\n## The testbed")]
    told = set(re.findall(r"`([\w.]+:[\w.]+)`", section))
    assert told
    assert told - {mutant.name for mutant in MUTANTS} == set()


def test_every_mutant_can_be_put_in_its_place() -> None:
    ran = subprocess.run([sys.executable, "-c", _LOOK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_one_that_is_noticed_is_told_by_whom() -> None:
    command = [
        "-m",
        "tests.mutants",
        "--json",
        "--one",
        "model.dir_list:newest",
        "--tests",
        "unit/test_dir_list.py",
    ]
    ran = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "unit/test_dir_list.py::" in ran.stdout, ran.stderr[-2000:]

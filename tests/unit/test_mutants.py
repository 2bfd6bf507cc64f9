"""`make mutants` changes what it names, wherever that is known; its table follows the code."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.weakened import MUTANTS, Mutant
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


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


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

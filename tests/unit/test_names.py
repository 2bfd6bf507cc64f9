"""Names that were replaced by terms of Kafka and Kubernetes do not come back."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle.reasons import all_reasons

ROOT = Path(__file__).resolve().parents[2]
CODE = ("core", "operator", "agent", "rebalance", "cli")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of our own that have no meaning to a reader. Forbidden everywhere, also as a part of a name.
COINAGES = frozenset(
    {"ward", "wards", "flock", "flocks", "nursery", "nurseries", "keepsake", "keepsakes", "rung", "rungs"}
)
_THIRD_PARTY = ("go.sum", "go.mod", "requirements.lock")
_POSIX = re.compile(r"(?:fcntl\.f|syscall\.F)lock")  # flock(2), in Python and in Go

# Forbidden for everything that Python names, with or without a leading underscore.
IDENTIFIERS = _names(
    """
    crossing crossings doors emptying filling goes_first gone_for_good hard_stop ladder ledger leftovers node_gone outlook outlooks
    refilling regrow resorts shrinking sizing takedown tuned tuning tunings wishes
    Desk Draft Judge KafkaGate Keeper Life Look Past Refusal Shelf Slot Standing Theirs Trouble Wait Wanted Wants
    """
)
# Forbidden for classes, modules and functions of a module. As names of variables and methods they are English:
# orders, marks, turns, rests, away, kept (what was kept), fill and fills (of a chart, too).
DEFINITIONS = _names(
    """
    away birth departing fill fills glance growing kept marks orders outlook rests seats shrink sites stalls stranded turns
    Link Object Wire
    """
)
# Settings of thresholds that have other names in the API; as verbs these are functions.
FIELDS = frozenset({"hard_stop", "refuse", "release"})

API_FIELDS = frozenset(
    {"goesFirst", "hardStop", "lastResorts", "nodeGone", "refuse", "release", "stopped", "wishes"}
)
API_VALUES = frozenset({"DisksHaveRoom", "Progressing", "Rejoining"})
OLD_REASONS = _names(
    """
    AcceptanceOfAnotherLoss BelowMinIsr BrokerLeaves BrokerNotWhole CordonWished DiskFilled DiskFilling DiskInUse DiskJoined DiskLeaves
    DiskSetAside DiskToReplace DiskWellAgain DrainLater DrainWished DrainWithdrawn EvacuationBegan FailedLately FillFell FillRose
    GrowBackFirst Hung KafkaExits KafkaOffline LastCopy ManyDisksBad ManyDisksStall MovedByOthers NearMinIsr NewDisk NoRoomElsewhere
    NoRoomToGrowBack NoVolume NodeAnswers NodeAway NodeGone NoneToSpare NotBackInTime OldDiskAgain OneAtATime PreflightRefuses
    ProducersSlowed ProducersStopped RackLost ReplicasCrowded ReplicasShed RestartsAgain RollStopped TooFewInSync TooFewNodes WrongDisk
    """
)
# Strimzi's: a take-over runs with both operators installed.
STRIMZIS_SHORT_NAMES = frozenset({"k", "kb", "kc", "kctr", "kmm", "kmm2", "kr", "kt", "ku"})


@cache
def _trees() -> dict[Path, ast.Module]:
    return {
        path.relative_to(ROOT): ast.parse(path.read_text())
        for part in CODE
        for path in sorted((ROOT / part).rglob("*.py"))
    }


def _named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Everything that the code gives a name to or asks by name, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg() | ast.keyword():
                yield node.lineno, node.arg or ""
            case ast.Attribute():
                yield node.lineno, node.attr
            case ast.Name():
                yield node.lineno, node.id
            case ast.alias():
                yield node.lineno, (node.asname or node.name).rsplit(".", 1)[-1]


def _defined(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The module itself, its functions, and all classes."""
    yield 0, path.stem
    yield from ((node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    yield from ((node.lineno, node.name) for node in tree.body if isinstance(node, functions))


def _fields(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.lineno, each.target.id


def _words(name: str) -> Iterable[str]:
    """The words of a name, in snake case or camel case, in lower case."""
    return (word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))


def _found(names: Iterable[tuple[int, str]], path: Path, forbidden: frozenset[str]) -> list[str]:
    return [f"{path}:{line}: {name}" for line, name in names if name.lstrip("_") in forbidden]


def test_no_old_name_is_an_identifier() -> None:
    found = []
    for path, tree in _trees().items():
        found += _found([*_named(tree), (0, path.stem)], path, IDENTIFIERS)
        found += _found(
            ((line, name) for line, name in _defined(path, tree) if not name.startswith("_")),
            path,
            DEFINITIONS,
        )
        found += _found(_fields(tree), path, FIELDS)

    assert sorted(set(found)) == []


def test_no_step_settles() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in _trees().items()
        if path.is_relative_to("core/spindle/reconcile")
        for line, name in _defined(path, tree)
        if name.startswith("settle_")
    ]

    assert found == []


def test_no_two_classes_of_core_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _trees().items():
        if path.is_relative_to("core"):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path))

    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def _properties(schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a schema with their paths."""
    if isinstance(schema, dict):
        for name, field in (schema.get("properties") or {}).items():
            yield name, f"{path}.{name}"
            yield from _properties(field, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            yield from _properties(schema.get(key), path)


def _crds() -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]


def test_no_field_and_no_value_of_the_api_has_an_old_name() -> None:
    found = []
    for crd in _crds():
        kind = crd["spec"]["names"]["kind"]
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            fields = [(name, f"{kind}{path}") for name, path in _properties(schema)]
            # `maintenance.stopped` is the field; `spec.stopped` was it before.
            found += [
                path
                for name, path in fields
                if name in API_FIELDS and not path.endswith("maintenance.stopped")
            ]
            found += [value for value in API_VALUES if re.search(rf"\b{value}\b", yaml.safe_dump(schema))]
        assert not STRIMZIS_SHORT_NAMES & set(crd["spec"]["names"].get("shortNames", ()))

    assert found == []


def test_no_reason_and_no_condition_has_an_old_name() -> None:
    old = OLD_REASONS | API_VALUES
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in old
    ]

    assert found == []
    assert sorted(old & {each.name for each in all_reasons()}) == []


def test_no_text_has_a_coinage() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    found = []
    for name in listed.decode().split("\0"):
        path = ROOT / name
        if not name or path == Path(__file__) or path.name in _THIRD_PARTY or not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{name}:{number}: {line.strip()[:80]}"
            for number, line in enumerate(lines, 1)
            if COINAGES & set(_words(_POSIX.sub("", line)))
        ]
        found += [name] if COINAGES & set(_words(name)) else []

    assert found == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DiskWard", {"disk", "ward"}),
        ("forward_to", {"forward", "to"}),
        ("fork_nursery", {"fork", "nursery"}),
        ("RUNG", {"rung"}),
        ("KafkaRungs", {"kafka", "rungs"}),
    ],
)
def test_words_of_a_name(name: str, words: set[str]) -> None:
    assert set(_words(name)) == words

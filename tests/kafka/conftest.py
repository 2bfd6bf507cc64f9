import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cleanup import loop_devices, remove_free_loops
from e2e.cluster.debian import ensure_programs
from spindle.disks.findings import RULES
from tests.kafka.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session", autouse=True)
def _no_loops_left() -> Iterator[None]:
    ensure_programs("java", "mkfs.xfs")
    before = set(loop_devices())
    yield
    remove_free_loops(before)


@pytest.fixture(scope="module")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that are taken down when the module's tests are done."""
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Cluster:
            cluster = Cluster(tmp_path_factory.mktemp("kafka"), **options)
            stack.callback(cluster.down)
            return cluster

        yield make


@pytest.fixture
def brief_dwells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts come and go after a fifth of their time.

    How long each has to hold is proven without a disk (tests/property); here, that what a real disk does makes it come and go.
    """
    for reason, rule in list(RULES.items()):
        brief = replace(
            rule, after=rule.after / 5, suspect_after=rule.suspect_after / 5, leave=rule.leave / 5
        )
        monkeypatch.setitem(RULES, reason, brief)

"""A real cluster with Spindle. KUBECONFIG chooses a cluster other than the testbed; scenarios that need the testbed are then skipped."""

import os
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.cluster.images import ensure_rebalance_image
from e2e.cluster.layout import SPINDLE_IMAGE, Layout
from e2e.cluster.state import Options
from e2e.cluster.target import ForeignCluster, Target, foreign_kubeconfig
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import create_namespace, delete_namespace, install, namespace
from e2e.scenarios.lab import Lab
from e2e.scenarios.machine import Killer, Machine
from e2e.scenarios.stand import SHOWN, Stand

_OPTIONS: Final = Options(nodes=6, zones=3, disks=3)
_KEEP: Final = "SPINDLE_KEEP"  # leave the testbed up after the run, for inspection


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort scenarios: those on the same kind of cluster together, and those that make theirs unusable last, so that each cluster is created once."""

    def turn(item: pytest.Item) -> tuple[bool, bool, bool]:
        fixtures = getattr(item, "fixturenames", ())
        return (
            "running" not in fixtures,
            "job_image" in fixtures,
            item.get_closest_marker("spends") is not None,
        )

    items.sort(key=turn)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The cluster."""
    named = foreign_kubeconfig()
    if named is not None:
        yield ForeignCluster(named)
        return
    os.environ.setdefault("SPINDLE_TESTBED", "scenarios")
    testbed = Testbed(Layout.default())
    # Nodes start as copies of one template: what is imported there need not be imported into each of them.
    asks = any("job_image" in getattr(item, "fixturenames", ()) for item in request.session.items)
    testbed.up(_OPTIONS, more=[ensure_rebalance_image] if asks else [])
    try:
        yield testbed
    finally:
        if _KEEP not in os.environ:
            testbed.down()


@pytest.fixture(scope="session")
def spindle_image() -> str:
    """Spindle's image, as the chart names it."""
    return os.environ.get("SPINDLE_IMAGE", SPINDLE_IMAGE)


@pytest.fixture(scope="session")
def installed(target: Target) -> Target:
    """The cluster with Spindle installed by its chart."""
    install(target)
    return target


@pytest.fixture(scope="session")
def job_image(installed: Target) -> None:
    """The rebalance job's image on all nodes; a cluster other than the testbed must have it already."""
    if isinstance(installed, Testbed):
        installed.give(ensure_rebalance_image())


@pytest.fixture
def lab(installed: Target, stands: Stand, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A namespace of its own with blank disks; everything in it is removed after the scenario."""
    stands.close()
    with namespace(installed, request.node.name) as lab:
        yield lab


@pytest.fixture(scope="module")
def running(stands: Stand) -> Lab:
    """The twelve-line sample, ready; shared by all scenarios that leave it healthy, and recreated after one that does not."""
    return stands.get(SHOWN)


@pytest.fixture(scope="session")
def stands(installed: Target) -> Iterator[Stand]:
    """A scenario with a namespace of its own closes the shared cluster first: there are disks for one cluster at a time."""
    made = Stand(
        lambda title, file_system, size: create_namespace(installed, title, file_system, size),
        delete_namespace,
    )
    try:
        yield made
    finally:
        if not isinstance(installed, Testbed) or _KEEP in os.environ:  # else it is removed with the testbed
            made.close()


@pytest.fixture
def stand(installed: Target, stands: Stand) -> Stand:
    """Clusters whose disks fail, one at a time; shared by scenarios as long as each leaves it healthy."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    return stands


@pytest.fixture
def machine(installed: Target) -> Iterator[Machine]:
    """Faults of the machine; skipped on other clusters. None remains after the scenario."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    made = Machine(installed)
    try:
        yield made
    finally:
        made.heal_all()


@pytest.fixture
def killer(installed: Target) -> Killer:
    """Kills operators."""
    return Killer(installed)

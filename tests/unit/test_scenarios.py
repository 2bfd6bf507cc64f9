"""The scenarios' clusters are ones that the API server takes: on the testbed a refused one costs minutes."""

import importlib
from pathlib import Path

import pytest

from e2e.scenarios.stand import Kind
from spindle.api.cluster import KafkaClusterSpec

SCENARIOS = Path(__file__).resolve().parents[2] / "e2e/scenarios"
KINDS = {
    f"{path.stem}.{name}": kind
    for path in sorted(SCENARIOS.glob("*.py"))
    for name, kind in vars(importlib.import_module(f"e2e.scenarios.{path.stem}")).items()
    if isinstance(kind, Kind)
}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()])
def test_the_cluster_of_a_scenario_can_be_applied(kind: Kind) -> None:
    spec = KafkaClusterSpec.model_validate(kind.manifest()["spec"])

    assert sum(pool.replicas for pool in spec.broker_pools) == kind.brokers

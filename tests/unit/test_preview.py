"""What a change would bring about is told before it is made, and is what then happens."""

from pathlib import Path
from typing import Any

import pytest

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.policy import RACK_AWARE
from spindle.config.preview import (
    ADDED,
    EMPTIED,
    EXPANDED,
    FILLED,
    LIVE,
    NEXT_START,
    REMOVED,
    ROLL,
    RUNNING,
    STAYS,
    preview,
)
from spindle_cli.errors import ClientError
from spindle_cli.preview import read, table
from tests.model.world import quickstart


def spec(**fields: Any) -> KafkaClusterSpec:
    return KafkaClusterSpec.model_validate(quickstart(**fields)["spec"])


def pooled(**fields: Any) -> dict[str, Any]:
    pool = quickstart()["spec"]["brokerPools"][0]
    return {"brokerPools": [pool | fields]}


MAIN = "brokers of pool main"


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {}, set()),
        ({}, {"config": {"log.retention.ms": "1"}}, {("log.retention.ms", MAIN, RUNNING)}),
        ({"config": {"log.retention.ms": "1"}}, {}, {("log.retention.ms", MAIN, ROLL)}),
        (
            {},
            {"config": {"num.partitions": "3"}},
            {("num.partitions", MAIN, ROLL), ("num.partitions", "controllers", ROLL)},
        ),
        ({}, pooled(config={"num.partitions": "3"}), {("num.partitions", MAIN, ROLL)}),
        ({}, {"config": {"min.insync.replicas": "1"}}, {("min.insync.replicas", "cluster", RUNNING)}),
        ({"config": {"min.insync.replicas": "1"}}, {}, {("min.insync.replicas", "cluster", STAYS)}),
        ({}, pooled(config={"min.insync.replicas": "1"}), {("min.insync.replicas", MAIN, ROLL)}),
        (
            {},
            {"config": {"num.recovery.threads.per.data.dir": "8"}},
            {("num.recovery.threads.per.data.dir", MAIN, NEXT_START)},
        ),
        ({}, {"racks": {"followerFetching": True}}, {("replica.selector.class", MAIN, ROLL)}),
        (
            {"config": {"replica.selector.class": RACK_AWARE}},
            {"racks": {"followerFetching": True}},
            {("replica.selector.class", "controllers", ROLL)},
        ),
        ({}, {"metrics": {"enabled": False}}, {("metrics.enabled", "all nodes", ROLL)}),
        ({}, {"metrics": {"topics": ["a"]}}, {("metrics.topics", "all brokers", LIVE)}),
        ({"metrics": {"topics": ["a"]}}, {}, {("metrics.topics", "all brokers", RUNNING)}),
        ({"metrics": {"topics": ["a", "b"]}}, {"metrics": {"topics": ["b", "a"]}}, set()),
        (
            {},
            {"metrics": {"consumerLag": {"enabled": True}}},
            {("metrics.consumerLag", "the operator", RUNNING)},
        ),
        ({}, {"version": "4.3.0"}, {("version", "all nodes", ROLL)}),
        (
            {"controllers": {"replicas": 1, "storage": {"size": "1Gi"}}},
            {},
            {("controllers.replicas", "controllers", RUNNING)},
        ),
        ({}, pooled(resources={"limits": {"memory": "4Gi"}}), {("resources", MAIN, ROLL)}),
        ({}, {"paused": True}, set()),
        ({}, {"rolling": {"restart": "now"}}, {("rolling.restart", "all nodes", ROLL)}),
        ({}, pooled(replicas=5), {("replicas: 3 to 5", "pool main", FILLED)}),
        (pooled(replicas=5), {}, {("replicas: 5 to 3", "pool main", EMPTIED)}),
        (
            {},
            pooled(name="other"),
            {("replicas: 3 to 0", "pool main", EMPTIED), ("replicas: 0 to 3", "pool other", FILLED)},
        ),
    ],
)
def test_how_each_change_is_made(
    before: dict[str, Any], after: dict[str, Any], changes: set[tuple[str, str, str]]
) -> None:
    found = preview(spec(**before), spec(**after))
    assert {(change.what, change.where, change.how) for change in found} == changes
    assert len(found) == len(changes)


def test_a_file_with_one_cluster_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "kind: Namespace\n---\n" + (Path(__file__).parents[2] / "examples/quickstart.yaml").read_text()
    )
    assert read(path).spec.version == "4.3.1"
    assert isinstance(table([]), str)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\n", "contains 0 KafkaClusters"),
        ("a: [\n", "cannot be read"),
        ("kind: KafkaCluster\nspec: {}\n", "spec"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ClientError, match=said):
        read(path)


ALL = {"all": True, "storageClass": "local-disks"}


@pytest.mark.parametrize(
    ("before", "after", "what", "how"),
    [
        ({"count": 2, "size": "1Gi"}, {"count": 3, "size": "1Gi"}, "disks.count: 2 to 3", ADDED),
        ({"count": 2, "size": "1Gi"}, {"count": 1, "size": "1Gi"}, "disks.count: 2 to 1", REMOVED),
        ({"count": 2, "size": "1Gi"}, {"count": 2, "size": "2Gi"}, "disks.size: 1Gi to 2Gi", EXPANDED),
        ({"count": 2, "size": "1Gi"}, ALL, "disks.all: 2 to all volumes of a node", ADDED),
        (ALL, {"count": 2, "size": "1Gi"}, "disks.count: all volumes of a node to 2", REMOVED),
        (ALL, ALL | {"maxCount": 4}, "disks.maxCount: unset to 4", REMOVED),
        (ALL | {"maxCount": 4}, ALL | {"maxCount": 6}, "disks.maxCount: 4 to 6", ADDED),
    ],
)
def test_changes_of_disks(before: dict[str, Any], after: dict[str, Any], what: str, how: str) -> None:
    (found,) = preview(spec(**pooled(disks=before)), spec(**pooled(disks=after)))
    assert (found.what, found.where, found.how) == (what, MAIN, how)

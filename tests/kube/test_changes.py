"""What may be changed once it is there, and what may not."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tests.kube.api import Resources, refusal
from tests.kube.samples import GONE, INPUT_HASH, bent, broker, cluster, move, rebalance

pytestmark = pytest.mark.kube

POOL = "spec.brokerPools[0]"
SAMPLES = {"KafkaCluster": cluster, "KafkaBroker": broker, "KafkaRebalance": rebalance}
ALL = {"all": True, "storageClass": "local-disks"}
SECOND_POOL = {"name": "more", "replicas": 3, "disks": {"count": 1, "size": "10Gi"}}


def case(kind: str, name: str, before: dict[str, Any], after: dict[str, Any], *expected: str) -> Any:
    return pytest.param(kind, before, after, *expected, id=f"{kind}-{name}")


REFUSED = [
    case("KafkaCluster", "class-of-all-disks", {f"{POOL}.disks": ALL}, {f"{POOL}.disks.storageClass": "fast"}, f"{POOL}.disks.storageClass", "add a new pool"),
    case("KafkaCluster", "all-disks-of-another-class", {}, {f"{POOL}.disks": ALL | {"storageClass": "other"}}, f"{POOL}.disks.storageClass", "restore the previous one"),
    case("KafkaCluster", "disk-shrinks", {}, {f"{POOL}.disks.size": "50Gi"}, f"{POOL}.disks.size", "cannot shrink from 100Gi to 50Gi: keep the size or increase it; for smaller disks, add a new pool"),
    case("KafkaCluster", "disk-shrinks-by-unit", {}, {f"{POOL}.disks.size": "100G"}, f"{POOL}.disks.size", "cannot shrink from 100Gi to 100G"),
    case("KafkaCluster", "controller-disk-shrinks", {}, {"spec.controllers.storage.size": "512Mi"}, "spec.controllers.storage.size", "cannot shrink from 1Gi to 512Mi"),
    case("KafkaCluster", "class-changes", {}, {f"{POOL}.disks.storageClass": "fast"}, f"{POOL}.disks.storageClass", "restore the previous one and add a new pool"),
    case("KafkaCluster", "class-goes", {}, {f"{POOL}.disks.storageClass": GONE}, f"{POOL}.disks.storageClass", "cannot be changed"),
    case("KafkaCluster", "class-comes", {f"{POOL}.disks.storageClass": GONE}, {f"{POOL}.disks.storageClass": "fast"}, f"{POOL}.disks.storageClass", "cannot be changed"),
    case("KafkaCluster", "controller-class-changes", {"spec.controllers.storage.storageClass": "a"}, {"spec.controllers.storage.storageClass": "b"}, "spec.controllers.storage.storageClass", "restore the previous one"),
    case("KafkaCluster", "controller-class-comes", {}, {"spec.controllers.storage.storageClass": "b"}, "spec.controllers.storage.storageClass", "restore the previous one"),
    case("KafkaCluster", "second-pool-shrinks", {"spec.brokerPools[1]": SECOND_POOL}, {"spec.brokerPools[0]": {**SECOND_POOL, "disks": {"count": 1, "size": "9Gi"}}, "spec.brokerPools[1]": GONE}, f"{POOL}.disks.size", "from 10Gi to 9Gi"),
    case("KafkaBroker", "cluster", {}, {"spec.cluster": "other"}, "spec.cluster", "restore the previous value"),
    case("KafkaBroker", "id", {}, {"spec.id": 1}, "spec.id", "restore the previous value"),
    case("KafkaBroker", "pool", {}, {"spec.pool": "other"}, "spec.pool", "restore the previous value"),
    case("KafkaRebalance", "cluster", {}, {"spec.cluster": "other"}, "spec.cluster", "except for approved and stop"),
    case("KafkaRebalance", "hash", {}, {"spec.inputHash": "0123456789"}, "spec.inputHash", "create a new one"),
    case("KafkaRebalance", "expires", {}, {"spec.expires": "2031-01-01T00:00:00Z"}, "spec.expires", "create a new one"),
    case("KafkaRebalance", "more-moves", {}, {"spec.moves[1]": move(1)}, "spec.moves", "except for approved and stop"),
    case("KafkaRebalance", "another-target", {}, {"spec.moves[0].toBroker": 2}, "spec.moves", "except for approved and stop"),
    case("KafkaRebalance", "cost", {}, {"spec.cost.bytesInter": 1}, "spec.cost", "except for approved and stop"),
    case("KafkaRebalance", "gain", {}, {"spec.gain": {"rackViolationsBefore": 1}}, "spec.gain", "except for approved and stop"),
    case("KafkaRebalance", "forecast-comes", {}, {"spec.forecast": {"horizonHours": 1}}, "spec.forecast", "except for approved and stop"),
    case("KafkaRebalance", "forecast-goes", {"spec.forecast": {"horizonHours": 1}}, {"spec.forecast": GONE}, "spec.forecast", "except for approved and stop"),
    case("KafkaRebalance", "approved-other", {"spec.approved": INPUT_HASH}, {"spec.approved": "0123456789abcdef"}, "spec.approved", "copy spec.inputHash"),
]  # fmt: skip

ACCEPTED = [
    case("KafkaCluster", "all-disks", {}, {f"{POOL}.disks": ALL}),
    case("KafkaCluster", "a-number-of-disks", {f"{POOL}.disks": ALL}, {f"{POOL}.disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"}}),
    case("KafkaCluster", "lower-limit", {f"{POOL}.disks": ALL | {"maxCount": 4}}, {f"{POOL}.disks.maxCount": 2}),
    case("KafkaCluster", "no-limit", {f"{POOL}.disks": ALL | {"maxCount": 4}}, {f"{POOL}.disks.maxCount": GONE}),
    case("KafkaCluster", "disk-grows", {}, {f"{POOL}.disks.size": "0.2Ti"}),
    case("KafkaCluster", "disk-the-same-in-other-words", {}, {f"{POOL}.disks.size": "102400Mi"}),
    case("KafkaCluster", "controller-disk-grows", {}, {"spec.controllers.storage.size": "2Gi"}),
    case("KafkaCluster", "more-disks", {}, {f"{POOL}.disks.count": 4}),
    case("KafkaCluster", "fewer-disks", {}, {f"{POOL}.disks.count": 1}),
    case("KafkaCluster", "more-controllers", {}, {"spec.controllers.replicas": 5}),
    case("KafkaCluster", "another-pool-first", {}, {"spec.brokerPools": [SECOND_POOL, cluster()["spec"]["brokerPools"][0]]}),
    case("KafkaCluster", "pool-goes", {"spec.brokerPools[1]": SECOND_POOL}, {"spec.brokerPools[1]": GONE}),
    case("KafkaCluster", "newer-version", {}, {"spec.version": "4.4.0"}),
    case("KafkaCluster", "other-racks", {}, {"spec.racks.topologyKey": "example.com/row"}),
    case("KafkaCluster", "paused", {}, {"spec.paused": True}),
    case("KafkaBroker", "stopped", {}, {"spec.maintenance": {"stopped": True}}),
    case("KafkaBroker", "disk-comes", {}, {"spec.disks[2]": {**broker()["spec"]["disks"][0], "name": "disk2"}}),
    case("KafkaBroker", "volume-known", {}, {"spec.node": "n1", "spec.rack": "a", "spec.disks[0].pv": "pv1"}),
    case("KafkaRebalance", "approved", {}, {"spec.approved": INPUT_HASH}),
    case("KafkaRebalance", "withdrawn", {"spec.approved": INPUT_HASH}, {"spec.approved": GONE}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "before", "after", "field", "way_out"), REFUSED)
def test_change_is_refused(
    resources: Resources, kind: str, before: dict[str, Any], after: dict[str, Any], field: str, way_out: str
) -> None:
    stored = resources.create(bent(SAMPLES[kind](), before))
    with pytest.raises(ApiException) as caught:
        resources.update(bent(stored, after), dry=True)
    said = refusal(caught.value)
    assert said.code == 422
    assert field in said.causes, said.message
    assert any(way_out in message for message in said.causes[field]), said.causes[field]


@pytest.mark.parametrize(("kind", "before", "after"), ACCEPTED)
def test_change_is_accepted(
    resources: Resources, kind: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    stored = resources.create(bent(SAMPLES[kind](), before))
    resources.update(bent(stored, after), dry=True)

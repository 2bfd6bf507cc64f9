"""The KafkaBroker objects: each broker's identity record."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spindle.api import names
from spindle.model.metadata import labels, owner_reference


def kafka_broker(
    cluster: Mapping[str, Any],
    broker_id: int,
    pool: str,
    disks: Iterable[Mapping[str, Any]],
    *,
    node: str | None = None,
    rack: str | None = None,
    moves: Sequence[Mapping[str, Any]] = (),
    throttle: int | None = None,
    throttle_min: int | None = None,
    retired: Sequence[str] = (),
    thresholds: Mapping[str, Any] | None = None,
    ballast: int | None = None,
    samples_every: int | None = None,
    scrub: Mapping[str, Any] | None = None,
    leaving: bool = False,
    joining: bool | None = None,
    returning: bool | None = None,
    log_dirs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A KafkaBroker with the fields that the operator owns; ``maintenance``, ``acceptDataLoss`` and ``acceptUnavailable`` belong to the user.

    It has a finalizer, because it records the identity of the disks.

    Args:
        cluster: the KafkaCluster object.
        broker_id: Kafka's id of the broker.
        pool: its pool.
        disks: entries of ``spec.disks``; fields that are None are omitted.
        node: Kubernetes node that its volumes are on, once known.
        rack: its rack, None for none.
        moves: entries of ``spec.moves``, in order.
        throttle, throttle_min: bytes per second of these moves together: the maximum, and the minimum even if disks become slow.
        retired: directory ids of retired disks, the latest last.
        thresholds: usage thresholds of its disks, as in the API.
        ballast: bytes of the file that the agent keeps on each disk; None for none.
        samples_every: seconds between two samples that the agent publishes; None for none.
        scrub: the rate at which the agent checks the data on the disks; None to disable scrubbing.
        leaving: whether it is being removed.
        joining: whether it is new to an existing cluster; None to omit the field.
        returning: whether it was readopted by its claims; None to omit the field.
        log_dirs: the list of its log dirs, as in the API.
    """
    name = cluster["metadata"]["name"]
    optional = {
        "node": node,
        "rack": rack,
        "moves": [dict(move) for move in moves] or None,
        "throttleBytesPerSecond": throttle,
        "throttleBytesPerSecondMin": throttle_min,
        "retired": list(retired) or None,
        "thresholds": dict(thresholds) if thresholds else None,
        "ballastBytes": ballast,
        "samplesEverySeconds": samples_every,
        "scrub": dict(scrub) if scrub else None,
        "leaving": leaving or None,
        "joining": joining,
        "returning": returning,
        "logDirs": dict(log_dirs) if log_dirs else None,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaBroker",
        "metadata": {
            "name": names.broker_name(name, broker_id),
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels(name, role=names.ROLE_BROKER, node_id=broker_id, pool=pool),
            "finalizers": [names.FINALIZER],
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "cluster": name,
            "id": broker_id,
            "pool": pool,
            **{key: value for key, value in optional.items() if value is not None},
            "disks": [{key: value for key, value in disk.items() if value is not None} for disk in disks],
        },
    }

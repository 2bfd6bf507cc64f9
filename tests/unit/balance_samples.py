"""Pictures of small clusters for the tests of `spindle.balance`."""

from collections.abc import Mapping, Sequence
from typing import Any

from spindle.api import names
from spindle.balance.picture import BrokerFact, DiskFact, Picture
from spindle.model.view import Broker, KafkaView, LogDir, Partition

GB = 10**9
DISK = 100 * GB
SPEC: dict[str, Any] = {
    "version": "4.3.1",
    "controllers": {"replicas": 3, "storage": {"size": "1Gi"}},
    "brokerPools": [
        {"name": "main", "replicas": 3, "disks": {"count": 2, "size": "100Gi", "storageClass": "local"}}
    ],
}


def picture(
    placed: Mapping[tuple[int, int], Sequence[tuple[str, int, int]]],
    *,
    disks: Mapping[tuple[int, int], Mapping[str, Any]] | None = None,
    rebalance: Mapping[str, Any] | None = None,
    silent: Sequence[int] = (),
    other_files: int = 0,
    per_broker: int = 2,
    brokers: int = 3,
    under_way: str = "",
) -> Picture:
    """A picture of a cluster with a rack per broker.

    Args:
        placed: (broker, disk) → (topic, partition, bytes) of each replica there.
        disks: (broker, disk) → fields of its `DiskFact`.
        rebalance: spec.rebalance.
        silent: brokers that do not answer.
        other_files: bytes on each disk that are no replica's.
    """
    replicas: dict[tuple[str, int], list[int]] = {}
    for (broker, _), logs in sorted(placed.items()):
        for topic, index, _ in logs:
            replicas.setdefault((topic, index), []).append(broker)
    dirs = {
        broker: tuple(
            LogDir(
                path=names.log_dir(f"disk{disk}"),
                total_bytes=DISK,
                usable_bytes=DISK - other_files - sum(size for *_, size in placed.get((broker, disk), ())),
                replicas={(t, i): size for t, i, size in placed.get((broker, disk), ())},
            )
            for disk in range(per_broker)
        )
        for broker in range(brokers)
    }
    return Picture(
        namespace="ns",
        cluster="demo",
        at_ms=1_760_000_000_000,
        spec={**SPEC, "rebalance": dict(rebalance or {})},
        brokers=tuple(
            BrokerFact(
                broker,
                tuple(
                    DiskFact(
                        f"disk{disk}",
                        "Active",
                        **{"state": "Active", **((disks or {}).get((broker, disk)) or {})},
                    )
                    for disk in range(per_broker)
                ),
            )
            for broker in range(brokers)
        ),
        kafka=KafkaView(
            cluster_id="c",
            brokers={
                b: Broker(b, f"zone-{b}", fenced=False, log_dirs=None if b in silent else dirs[b])
                for b in range(brokers)
            },
            partitions=tuple(
                Partition(topic, index, at[0], tuple(at), tuple(at))
                for (topic, index), at in sorted(replicas.items())
            ),
        ),
        under_way=under_way,
    )


def skewed(**options: Any) -> Picture:
    """Three brokers, everything on the first disk of each: twelve logs of 6 GB."""
    logs = [("orders", index, 6 * GB) for index in range(12)]
    return picture({(broker, 0): logs for broker in range(3)}, **options)

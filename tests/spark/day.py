"""A day of samples of three brokers, as agents write them: what `tests.unit.balance_samples.skewed` has in Kafka."""

from spindle.api import names
from spindle.samples.codec import encode
from tests.unit.balance_samples import DISK, GB
from tests.unit.sample_rows import disks, replicas, sample

COUNT = 288  # a day, one in five minutes
STEP_MS = 300_000
START_MS = 1_759_913_600_000
GROWTH = 1000  # bytes per second of each log

Row = tuple[int, int, int, int, bytes]  # as `source.RECORDS`


def at(k: int) -> int:
    """When the k-th sample is taken."""
    return START_MS + k * STEP_MS


def value(broker: int, k: int, *, at_ms: int | None = None, times: int = 1, cluster: str = "c") -> bytes:
    """The k-th sample of a broker: twelve logs that grow, all on its first disk, and its second disk idle.

    Args:
        broker: its id.
        k: which sample.
        at_ms: what its clock says; right by default.
        times: sizes are so many times what they are.
        cluster: id of the cluster.
    """
    size = times * (6 * GB - (COUNT - k) * STEP_MS // 1000 * GROWTH)
    rows = [("orders", i, names.log_dir("disk0"), size, float(GROWTH), broker == 0) for i in range(12)]
    common = {
        "kind": "ssd", "capacity": DISK, "state": "Active", "reads_per_s": 50.0, "writes_per_s": 50.0,
        "write_ms": 2.0, "read_ms": 1.0,
    }  # fmt: skip
    shown = disks(
        {"dir": names.log_dir("disk0"), "disk": "disk0", "used": 12 * size, **common},
        {"dir": names.log_dir("disk1"), "disk": "disk1", "used": 0, **common},
    )
    made = sample(
        cluster_id=cluster, broker=broker, rack=f"zone-{broker}", at_ms=at(k) if at_ms is None else at_ms,
        replicas=replicas(rows), disks=shown,
    )  # fmt: skip
    return encode(made)


def row(
    broker: int, k: int, made: bytes | None = None, *, offset: int | None = None, late_ms: int = 0
) -> Row:
    """The record of a broker's k-th sample: in a partition of its own, stored when it was taken."""
    return (
        broker,
        k if offset is None else offset,
        at(k) + late_ms,
        broker,
        value(broker, k) if made is None else made,
    )


def day() -> list[Row]:
    """All of them, nothing wrong with any."""
    return [row(broker, k) for broker in range(3) for k in range(COUNT)]

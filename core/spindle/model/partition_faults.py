"""The partitions that clients cannot use as they should."""

from collections.abc import Sequence
from dataclasses import dataclass

from spindle.model.view import KafkaView


@dataclass(frozen=True)
class PartitionFaults:
    """Names of partitions that clients cannot use as they should.

    Attributes:
        offline: without a leader.
        under_min_isr: with fewer in-sync replicas than ``min.insync.replicas``, or than they have replicas if that is less: Kafka's
            effectiveMinIsr (Partition.scala). Topics whose configuration is not known are left out.
    """

    offline: Sequence[str]
    under_min_isr: Sequence[str]


def partition_faults(view: KafkaView) -> PartitionFaults | None:
    """The partitions with a fault; None if partitions or their ``min.insync.replicas`` could not be read."""
    if view.partitions is None or view.min_isr is None:
        return None
    least, unsettled = view.min_isr, view.partition_index.unsettled
    return PartitionFaults(
        sorted(partition.name for partition in unsettled if partition.leader is None),
        sorted(
            partition.name
            for partition in unsettled
            if (minimum := least.get(partition.topic)) is not None
            and len(partition.isr) < min(minimum, partition.recorded_rf)
        ),
    )

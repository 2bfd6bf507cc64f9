"""Reads the lag of a KafkaCluster's consumer groups about once a minute, beside the passes: with a connection and a thread of its own, which a pass never waits for."""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.errors import KafkaError

from spindle.api import names
from spindle.api.metrics import ConsumerLag
from spindle.metrics.cluster import MetricSample
from spindle.metrics.consumer_lag import Key, lag_samples
from spindle.model import objects
from spindle.model.pools import recorded_spec
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.view import KafkaView
from spindle_operator import metrics
from spindle_operator.connection import Access, sentence
from spindle_operator.kafka_executor import KafkaExecutor

log = logging.getLogger(__name__)

EVERY: Final = 60.0  # seconds between two readings
SIDE_BY_SIDE: Final = 2  # concurrent readings of different clusters
_GONE: Final = (KafkaError, OSError, TimeoutError, RuntimeError)


@dataclass(frozen=True)
class _Asked:
    """What the last pass told.

    Attributes:
        access: how to connect, or why that is not possible.
        groups: `ConsumerLag.groups`.
        view: Kafka as that pass saw it.
    """

    access: Access | str
    groups: tuple[str, ...]
    view: KafkaView


def wanted_lag(snapshot: ClusterSnapshot) -> ConsumerLag:
    """The setting in the spec that is in effect, which is the one on record."""
    record = objects.by_name(snapshot.config_maps).get(names.pools_map(objects.name(snapshot.cluster)))
    spec = recorded_spec(record, objects.uid(snapshot.cluster))
    return ConsumerLag() if spec is None else spec.metrics.consumer_lag


class LagExporter:
    """The consumer lag of one KafkaCluster. Reads nothing until it is told to."""

    def __init__(
        self, cluster: str, kafka: KafkaExecutor, slots: asyncio.Semaphore, every: float = EVERY
    ) -> None:
        """Not reading yet.

        Args:
            cluster: ``namespace/name``.
            kafka: a connection that nothing else uses.
            slots: limits the readings of all clusters.
            every: seconds between two readings.
        """
        self._cluster = cluster
        self._source = f"{cluster} consumer lag"  # no name of a cluster has a space
        self._kafka = kafka
        self._slots = slots
        self._every = every
        self._asked: _Asked | None = None
        self._task: asyncio.Task[None] | None = None

    async def follow(self, lag: ConsumerLag, access: Access | str, view: KafkaView) -> None:
        """Take over what a pass saw; start or stop reading as the spec says."""
        if not lag.enabled:
            await self._stop()
            return
        self._asked = _Asked(access, tuple(lag.groups), view)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"consumer lag {self._cluster}")

    async def close(self) -> None:
        """Stop for good."""
        await self._stop()
        await self._kafka.shutdown()

    async def _stop(self) -> None:
        task, self._task, self._asked = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            metrics.SAMPLES.drop(self._source)
            await self._kafka.close()

    async def _run(self) -> None:
        while True:
            try:
                async with self._slots:
                    samples = await self._read()
            except _GONE as error:
                metrics.kafka_failed(self._cluster, error)
                log.info("%s: the lag of its groups could not be read: %s", self._cluster, sentence(error))
                samples = []
            except Exception:
                log.exception("%s: the lag of its groups could not be read", self._cluster)
                samples = []
            metrics.SAMPLES.put(self._source, samples)
            await asyncio.sleep(self._every * random.uniform(0.9, 1.1))  # noqa: S311 - spreads load

    async def _read(self) -> Sequence[MetricSample]:
        """All series; none while Kafka cannot be asked, since an old lag would look like a group that stands still."""
        asked = self._asked
        if asked is None or isinstance(asked.access, str) or asked.view.partitions is None:
            return []
        leaders: Mapping[Key, int | None] = {(p.topic, p.index): p.leader for p in asked.view.partitions}
        offsets, ends = await self._kafka.read_lag(asked.access, asked.groups, leaders)
        return list(lag_samples(metrics.key_of(self._cluster), offsets, ends))

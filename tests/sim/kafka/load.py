"""Producers: some use acks=all, and rely on acknowledgements."""

from collections.abc import Iterable
from typing import Any

from tests.sim.disks import RECORD
from tests.sim.kafka.brokers import Brokers
from tests.sim.kafka.state import Part

_MOST = 60  # records in a partition


class Load(Brokers):
    """Topics that are written to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._records = 0
        self._pending: list[tuple[Part, int, int]] = []

    def start_load(self, topics: Iterable[Any]) -> None:
        """Create topics (`tests.sim.variety.Topic`) with records, and write to them from now on."""
        for topic in topics:
            made = self.make_topic(
                topic.name,
                self.placement(topic.partitions, topic.rf),
                {"min.insync.replicas": str(topic.min_isr)},
            )
            self._fill(made, topic.records)
            self.loaded[topic.name] = topic.acks_all
        self.loading = True

    def _fill(self, parts: list[Part], records: int) -> None:
        for part in parts:
            first = [(part.epoch, self._records + 1 + i) for i in range(records)]
            self._records += records
            places = []
            for broker in part.replicas:
                process = self.process_of(broker)
                held = self.ensure(process, part) if process is not None else None
                if held is not None:
                    held[1].logs[part.key, ""].entries = list(first)
                    places.append(held)
            if len(places) == len(part.replicas):
                self.ledger.acknowledge(part.ident, (record for _, record in first))

    def load_also(self, name: str) -> None:
        """Write to this topic as well, with acks=all."""
        self.loaded[name] = True

    def stop_load(self) -> None:
        """Stop writing."""
        self.loading = False

    def produce(self) -> None:
        """One second of all producers."""
        for topic, acks_all in self.loaded.items():
            mine = [p for p in self.parts.values() if p.topic == topic]
            if mine and self.rng.random() <= 0.1:
                self.write(self.rng.choice(mine), acks_all=acks_all)

    def write(self, part: Part, *, acks_all: bool, most: int = _MOST) -> None:
        """Write one record to a partition with fewer than so many, if its leader accepts it now."""
        process = self.process_of(part.leader)
        held = process.where(part.key) if process is not None else None
        if (
            process is None
            or held is None
            or process.stuck
            or (process.stopping and process.down_at is not None)
        ):
            return
        fs, log = held[1], held[1].logs[part.key, ""]
        if acks_all and not self.writable(part):
            return
        if fs.blocks:
            process.stuck = True
        if self.slow(fs) or not fs.appends or fs.free < RECORD or len(log.entries) > most:
            return
        self._records += 1
        log.entries.append((part.epoch, self._records))
        log.written_at = fs.used_at = self.kernel.now + self.skew(process.node)
        if acks_all:
            self._pending.append((part, part.epoch, self._records))

    def acknowledge(self) -> None:
        """Acknowledge what all in-sync replicas have."""
        left = []
        for part, epoch, record in self._pending:
            if part.epoch != epoch or self.parts.get(part.key) is not part:
                continue  # its producer got an error, and does not rely on it
            if self.writable(part) and all(self._has(part, broker, record) for broker in part.isr):
                self.ledger.acknowledge(part.ident, [record])
            else:
                left.append((part, epoch, record))
        self._pending = left[-400:]

    def _has(self, part: Part, broker: int, record: int) -> bool:
        process = self.process_of(broker)
        held = process.where(part.key) if process is not None else None
        return held is not None and any(r == record for _, r in held[1].logs[part.key, ""].entries[-40:])

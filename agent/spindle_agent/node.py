"""The agent's state of its node: recorded disks, observations, and reports."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from spindle.api import names
from spindle.api.enums import DiskVerdict, Pressure
from spindle.api.thresholds import Thresholds
from spindle.disks.findings import ProbeSettings
from spindle.disks.signals import Latency, compare
from spindle_agent.broker.credentials import Credentials
from spindle_agent.broker.session import BrokerSession
from spindle_agent.disk import Disk
from spindle_agent.disk_settings import DiskSettings
from spindle_agent.moves.mover import Mover
from spindle_agent.options import Options
from spindle_agent.places import slots_of, unwatched_of
from spindle_agent.probing import diskstats, timer_lag
from spindle_agent.probing.messages import QuickChecked, Recalled, Remember, Report, well
from spindle_agent.probing.pool import Key, Pool
from spindle_agent.publish import Publisher
from spindle_agent.samples.gathered import SeenDisk
from spindle_agent.samples.sampler import Sampler, send
from spindle_agent.tasks import Tasks
from spindle_agent.usage.records import Sample
from spindle_agent.usage.tracker import UsageTracker, in_flight, thresholds_of

if TYPE_CHECKING:
    from spindle_agent.scrub.scrubs import Scrubs

log = logging.getLogger(__name__)

Name = tuple[str, str]
Json = dict[str, Any]

TICK: Final = 1.0
_LATENCY_EVERY: Final = 2.0
_RETUNE_EVERY: Final = 5.0
_SENDERS: Final = 4  # threads that send samples; few brokers share a node
_NO_LATENCY: Final = Latency()  # of a device that was not measured
_WAITING: Final = 1.0  # seconds after which a pending write is evaluated each second


class Node:
    """The brokers and disks of this node. Everything happens in the event loop; nothing here blocks."""

    def __init__(
        self,
        options: Options,
        publisher: Publisher,
        credentials: Credentials,
        disk_settings: DiskSettings,
        tasks: Tasks,
    ) -> None:
        """Start without brokers and disks; ``pool`` must be set before anything else."""
        self._options = options
        self._publisher = publisher
        self._credentials = credentials
        self._disk_settings = disk_settings
        self._retune_now = asyncio.Event()
        self._tasks = tasks
        self._objects: Mapping[Name, Json] = {}
        self._sessions: dict[Name, tuple[BrokerSession, tuple[asyncio.Task[None], ...]]] = {}
        self._senders = ThreadPoolExecutor(_SENDERS, "samples")
        self._latencies = diskstats.Latencies()
        self._latency: dict[str, Latency] = {}
        self._latency_at = 0.0
        self.fills = UsageTracker(self._remember)
        self.strain = timer_lag.TimerLag()
        self.scrubs: Scrubs | None = None
        self.pool: Pool
        self.disks: dict[Key, Disk] = {}
        self._told: dict[Key, tuple[Json | None, str]] = {}
        self._told_strain: dict[Name, Json] = {}
        self.ticked_at = time.monotonic()

    # Recorded objects

    def sees(self, objects: Mapping[Name, Json]) -> None:
        """Take over the current KafkaBrokers of this node."""
        if objects.keys() - self._objects.keys():
            self._retune_now.set()
        self._objects = objects
        now = time.monotonic()
        for name in self._sessions.keys() - objects.keys():
            for task in self._sessions.pop(name)[1]:
                task.cancel()
            self._publisher.forget(name)
            self._told_strain.pop(name, None)
        for name, obj in objects.items():
            observed = (obj.get("status") or {}).get("observed")
            self._publisher.see(name, observed)
            if name not in self._sessions:
                self._sessions[name] = self._keep(name, observed or {})
            self._sessions[name][0].wants(obj["spec"])
        self._set_disks(now)
        for name in objects:
            self.tell(name)

    def _keep(self, name: Name, observed: Json) -> tuple[BrokerSession, tuple["asyncio.Task[None]", ...]]:
        mover = Mover("/".join(name), observed)
        sampler = Sampler(name, lambda: self._seen(name), self._senders, send)
        session = BrokerSession(
            name,
            self._options,
            self._credentials,
            mover,
            lambda: self._kafka_said(name),
            lambda: self._felt(name),
            sampler,
        )
        return session, (
            self._tasks.start(session.run(), f"broker {name[1]}"),
            self._tasks.start(sampler.run(session.access, session.doubt), f"samples of {name[1]}"),
        )

    def _set_disks(self, now: float) -> None:
        slots = {
            (*name, slot.name): replace(slot, cluster_id=self._cluster_id(name))
            for name, obj in self._objects.items()
            for slot in slots_of(obj, self._options)
        }
        for key in self.disks.keys() - slots.keys():
            del self.disks[key]
            self._told.pop(key, None)
        self.fills.keep(slots)
        watches = {}
        for key, slot in slots.items():
            disk = self.disks.get(key)
            entry = _observed_disk(self._objects[key[:2]], slot.name)
            self.fills.sees(key, slot.directory_id, entry)
            if disk is None:
                disk = self.disks[key] = Disk(slot, now)
                if entry is not None:
                    disk.resume(entry, now)
            else:
                disk.changed(slot)
            if self.scrubs is not None and slot.scrub is not None:
                self.scrubs.sees(key, slot.directory_id, entry)
            watches[key] = slot.watch(self._settings_of(key[:2]).interval)
        self.pool.set(watches)
        if self.scrubs is not None:
            self.scrubs.keep([key for key, slot in slots.items() if slot.scrub is not None])

    # Observations

    def take(self, key: Key, report: Report) -> None:
        """Process a worker's report."""
        disk = self.disks.get(key)
        if isinstance(report, QuickChecked):
            self.strain.was_late("/".join(key), report.at, report.late)
        if isinstance(report, Recalled):
            self.fills.recalled(key, report)
        elif disk is not None and disk.take(report):
            self._assess(key, disk)

    def worker_started(self, key: Key) -> None:
        """A new worker reports on this disk from now on."""
        disk = self.disks.get(key)
        if disk is not None:
            disk.started(time.monotonic())

    def _kafka_said(self, name: Name) -> None:
        """The broker reported its log dirs, or a move made progress."""
        session, now = self._sessions[name][0], time.monotonic()
        for key, disk in self._disks_of(name):
            self.fills.look(key, session.log_dir(disk.slot.log_dir))
            said = session.error_of(disk.slot.log_dir, now)
            if said != disk.kafka_error:
                disk.kafka_error = said
                self._assess(key, disk)
        self.tell(name)

    def _assess(self, key: Key, disk: Disk) -> None:
        now = time.monotonic()
        session = self._sessions.get(key[:2])
        disk.kafka_error = session[0].error_of(disk.slot.log_dir, now) if session is not None else None
        before = disk.judged
        starved = self.strain.starved(now)
        again = disk.assess(self.latency_of(disk), now, self._settings_of(key[:2]), starved=starved)
        if again:
            self.pool.again(key)
        after = disk.judged
        if after is not None and after != before:
            level = logging.INFO if after.verdict is DiskVerdict.HEALTHY else logging.WARNING
            words = " ".join(part for part in (after.verdict, after.reason, after.message) if part)
            log.log(level, "%s: %s", "/".join(key), words)
        # Most reports change nothing that is told.
        if self._report(key, disk, now) != self._told.get(key):
            self.tell(key[:2])
        self._tell_strain()

    # Reports

    def tell(self, name: Name) -> None:
        """Hand over a broker's status for writing, once all of its disks were checked."""
        now = time.monotonic()
        disks = self._disks_of(name)
        if name not in self._sessions or not all(disk.ready(now) for _, disk in disks):
            return
        told = {key: self._report(key, disk, now) for key, disk in disks}
        self._told |= told
        self._told_strain[name] = strain = self.strain.fields()
        observed = {
            "node": self._options.node,
            "disks": sorted((e for e, _ in told.values() if e is not None), key=lambda e: str(e["name"])),
            **self._unwatched(name, {key[2]: reason for key, (_, reason) in told.items() if reason}),
            **self._sessions[name][0].mover.fields(),
            **strain,
        }
        self._publisher.offer(name, observed)

    def _unwatched(self, name: Name, found: Mapping[str, str]) -> Json:
        """The disks of a broker that cannot be looked at, with the reasons; ``found`` are those of disks with a worker."""
        reasons = {**unwatched_of(self._objects[name], self._options), **found}
        entries = [{"name": disk, "message": reason} for disk, reason in sorted(reasons.items())]
        return {"unwatched": entries} if entries else {}

    def _report(self, key: Key, disk: Disk, now: float) -> tuple[Json | None, str]:
        """The disk's entry in the status, or why there is none."""
        entry = disk.entry(self.latency_of(disk), now)
        if entry is None:
            return None, disk.unwatched
        entry |= self.fills.told(key) | (self.scrubs.told(key) if self.scrubs is not None else {})
        return entry, ""

    # Periodic work

    async def run(self) -> None:
        """Do the periodic work until cancelled."""
        while True:
            now = self.ticked_at = time.monotonic()
            if now - self._latency_at >= _LATENCY_EVERY:
                self._measure(now)
            for key, disk in list(self.disks.items()):
                if disk.pending(now) > _WAITING:
                    self._assess(key, disk)
                self.fills.sample(key, disk)
            self.pool.replace_stuck(now)
            self._scrub()
            self._see_to_strain()
            self.strain.expects(time.monotonic() + TICK)
            await asyncio.sleep(TICK)
            self.strain.came(time.monotonic())

    def _see_to_strain(self) -> None:
        """Report CPU starvation when it starts and ends, even if no disk has anything to report."""
        self.strain.starved(time.monotonic())
        self._tell_strain()

    def _tell_strain(self) -> None:
        strain = self.strain.fields()
        for name in self._objects:
            if strain != self._told_strain.get(name, {}):
                self.tell(name)

    def _scrub(self) -> None:
        """Start scrubbing of all disks that are certainly healthy and belong to this broker."""
        if self.scrubs is None:
            return
        orders = {key: disk.scrubbing() for key, disk in self.disks.items()}
        self.scrubs.set({key: order for key, order in orders.items() if order is not None})

    async def follow_disk_settings(self) -> None:
        """Keep the clusters' probe settings up to date."""
        while True:
            self._retune_now.clear()
            await self._retune()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETUNE_EVERY):
                    await self._retune_now.wait()

    async def forecast(self) -> None:
        """Keep the forecasts of all disks up to date."""
        await self.fills.run(self._thresholds, self._moving, lambda key: self.tell(key[:2]))

    def _thresholds(self, key: Key) -> Thresholds:
        obj = self._objects.get(key[:2])
        return thresholds_of(obj["spec"] if obj is not None else {})

    def _moving(self, key: Key) -> tuple[int, int]:
        disk, session = self.disks.get(key), self._sessions.get(key[:2])
        return in_flight(session[0].mover.moves, disk.slot.log_dir) if disk and session else (0, 0)

    def _remember(self, key: Key, sample: Sample) -> None:
        disk = self.disks.get(key)
        if disk is not None:
            self.pool.remember(key, Remember(directory_id=disk.slot.directory_id, **asdict(sample)))

    def _measure(self, now: float) -> None:
        self._latency_at = now
        self.strain.pressure = timer_lag.read_pressure()
        devices = {disk.device for disk in self.disks.values() if disk.device is not None}
        try:
            self._latencies.add(now, diskstats.read(), devices)
        except (OSError, ValueError) as error:
            log.warning("reading the device counters failed: %s", error)
            return
        slow = {
            disk.device
            for disk in self.disks.values()
            if disk.device is not None and disk.judged is not None and disk.judged.verdict is DiskVerdict.SLOW
        }
        compared = compare({device: self._latencies.of(device) for device in devices}, slow)
        self._latency = {
            device: replace(latency, quiet=self._latencies.quiet(device))
            for device, latency in compared.items()
        }

    async def _retune(self) -> None:
        clusters = {(name[0], str(obj["spec"].get("cluster"))) for name, obj in self._objects.items()}
        changed = [await self._disk_settings.refresh(*cluster) for cluster in sorted(clusters)]
        if any(changed):
            self._set_disks(time.monotonic())

    # Queries

    def labels(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The labels of a broker or a disk in metrics: the namespace, the KafkaCluster, and the rest of the key."""
        obj = self._objects.get((key[0], key[1]))
        cluster = str(obj["spec"].get("cluster")) if obj is not None else ""
        return (key[0], cluster, *key[1:])

    def latency_of(self, disk: Disk) -> Latency:
        """Latency of a disk's device."""
        return self._latency.get(disk.device or "", _NO_LATENCY)

    def brokers(self) -> Iterator[tuple[Name, BrokerSession]]:
        """All brokers."""
        for name, (session, _) in self._sessions.items():
            yield name, session

    def _felt(self, name: Name) -> dict[str, Pressure]:
        """I/O pressure on each disk of a broker, by the path of its log dir, from current write latencies."""
        now = time.monotonic()
        return {
            disk.slot.log_dir: disk.pressure(self.latency_of(disk), now) for _, disk in self._disks_of(name)
        }

    def _seen(self, name: Name) -> list[SeenDisk]:
        """A broker's disks for a sample, including those that cannot be inspected from here."""
        obj = self._objects.get(name)
        return [] if obj is None else seen_disks(obj, {key[2]: disk for key, disk in self._disks_of(name)})

    def _disks_of(self, name: Name) -> list[tuple[Key, Disk]]:
        return [(key, disk) for key, disk in self.disks.items() if key[:2] == name]

    def _cluster_id(self, name: Name) -> str:
        obj = self._objects.get(name)
        return (
            self._disk_settings.cluster_id(name[0], str(obj["spec"].get("cluster")))
            if obj is not None
            else ""
        )

    def _settings_of(self, name: Name) -> ProbeSettings:
        obj = self._objects.get(name)
        return (
            self._disk_settings.of(name[0], str(obj["spec"].get("cluster")))
            if obj is not None
            else ProbeSettings()
        )


def seen_disks(obj: Mapping[str, Any], watched: Mapping[str, Disk]) -> list[SeenDisk]:
    """The disks of a KafkaBroker.

    Args:
        obj: the KafkaBroker.
        watched: disks that can be inspected from here, by name.
    """
    told = {disk["name"]: disk for disk in (obj.get("status") or {}).get("disks") or ()}
    found = []
    for entry in obj["spec"].get("disks") or ():
        about, disk = told.get(entry["name"]) or {}, watched.get(entry["name"])
        sizes = disk.glanced if disk is not None else None
        sized = sizes is not None and well(sizes) and sizes.total_bytes > 0
        found.append(
            SeenDisk(
                name=entry["name"],
                log_dir=about.get("logDir") or names.log_dir(entry["name"]),
                state=str(about.get("state") or ""),
                device=disk.device if disk is not None else None,
                capacity=sizes.total_bytes if sizes is not None and sized else None,
                used=sizes.used_bytes if sizes is not None and sized else None,
            )
        )
    return found


def _observed_disk(obj: Mapping[str, Any], disk: str) -> Mapping[str, Any] | None:
    observed = (obj.get("status") or {}).get("observed") or {}
    return next((entry for entry in observed.get("disks") or () if entry.get("name") == disk), None)

"""The agent's node put together, without processes: what is on record, what is seen, what is told, what is measured."""

import asyncio
import errno
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spindle.disks.findings import ProbeSettings
from spindle.disks.signals import Latency
from spindle.metrics import table
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import Identity, MetaProperties
from spindle_agent import metrics
from spindle_agent.broker.client import LogDir
from spindle_agent.broker.connection import Access, BrokerConnection, BrokerError
from spindle_agent.broker.session import BrokerSession
from spindle_agent.metrics import NodeState
from spindle_agent.moves.mover import Mover
from spindle_agent.node import Node
from spindle_agent.options import parse
from spindle_agent.probing import diskstats
from spindle_agent.probing.diskstats import Counters
from spindle_agent.probing.messages import Inspected, Probed, QuickChecked, Watch
from spindle_agent.probing.pool import Key
from spindle_agent.tasks import Tasks
from spindle_agent.usage.forecast import THRESHOLDS, ThresholdEta, UsageForecast
from spindle_shared.pages import pages
from tests.unit.agent_fakes import broker, until

ID = "A" * 22
NAME = ("ns", "demo-broker-0")
DISKS = ("disk0", "disk1")
WELL = QuickChecked(at=0, mounted=True, total_bytes=1000, used_bytes=100)


class FakePool:
    def __init__(self) -> None:
        self.watched: Mapping[Key, Watch] = {}
        self.asked: list[Key] = []

    def set(self, wanted: Mapping[Key, Watch]) -> None:
        self.watched = wanted

    def again(self, key: Key) -> None:
        self.asked.append(key)


class FakePublisher:
    def __init__(self) -> None:
        self.offers: dict[tuple[str, str], dict[str, Any]] = {}
        self.seen: dict[tuple[str, str], Any] = {}
        self.writes = 3

    def see(self, name: tuple[str, str], observed: Any) -> None:
        self.seen[name] = observed

    def offer(self, name: tuple[str, str], observed: dict[str, Any]) -> None:
        self.offers[name] = observed

    def written(self, name: tuple[str, str]) -> dict[str, Any]:
        return self.offers.get(name, {})

    def forget(self, name: tuple[str, str]) -> None:
        del self.seen[name]


class FakeTunings:
    def __init__(self) -> None:
        self.tuning = ProbeSettings()

    def of(self, *_: str) -> ProbeSettings:
        return self.tuning

    def cluster_id(self, *_: str) -> str:
        return "c"

    async def refresh(self, *_: str) -> bool:
        before, self.tuning = self.tuning, ProbeSettings(5.0, 30.0)
        return before != self.tuning


class NoBroker:
    async def of(self, *_: str) -> tuple[bytes, bytes, bytes]:
        raise LookupError("no Secret here")

    def doubt(self, *_: str) -> None:
        raise AssertionError("no broker was asked")


class Setting:
    """A node without processes."""

    more: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.pool, self.publisher, self.disk_settings = FakePool(), FakePublisher(), FakeTunings()
        self.node = Node(
            parse(["--node=here", "--disk-root=/mnt", *self.more]),
            cast("Any", self.publisher),
            cast("Any", NoBroker()),
            cast("Any", self.disk_settings),
            Tasks(lambda: None),
        )
        self.node.pool = cast("Any", self.pool)

    def sees(self, *names: str, **status: Any) -> None:
        self.node.sees({("ns", name): kafka_broker(name, **status) for name in names})

    def well(self, *names: str) -> None:
        for disk in DISKS:
            for name in names:
                self.reports(
                    ("ns", name, disk), Inspected(at=0, found=found(disk)), WELL, Probed(at=0, seconds=0)
                )

    def reports(self, key: Key, *reports: Any) -> None:
        now = time.monotonic()
        for report in reports:
            self.node.take(key, replace(report, at=now))

    def told(self, name: str = NAME[1]) -> dict[str, str]:
        offered = self.publisher.offers.get(("ns", name), {})
        return {disk["name"]: disk["verdict"] for disk in offered.get("disks", ())}


def found(disk: str) -> Found:
    return Found(
        mounted=True,
        device=f"8:{disk[-1]}",
        identity=Identity("c", 0, disk, ID),
        meta=MetaProperties("c", 0, ID),
    )


def kafka_broker(name: str, **status: Any) -> dict[str, Any]:
    obj = broker(name, disks=[{"name": disk, "directoryId": ID} for disk in DISKS])
    paths = [{"name": disk, "path": f"/mnt/{name}/{disk}"} for disk in DISKS]
    return obj | {"status": {"disks": paths, **status}}


@pytest.fixture
async def setting() -> Any:
    made = Setting()
    yield made
    made.node.sees({})


async def test_nothing_is_told_before_all_disks_were_seen(setting: Setting) -> None:
    setting.sees(NAME[1])
    key = (*NAME, "disk0")
    setting.reports(key, Inspected(at=0, found=found("disk0")), WELL, Probed(at=0, seconds=0))
    assert setting.told() == {}
    setting.well(NAME[1])
    assert setting.told() == {"disk0": "Healthy", "disk1": "Healthy"}
    assert setting.publisher.offers[NAME]["node"] == "here"
    assert setting.publisher.offers[NAME]["moves"] == []


async def test_a_report_that_changes_nothing_is_not_told_again(setting: Setting) -> None:
    setting.sees(NAME[1])
    setting.well(NAME[1])
    setting.publisher.offers.clear()
    setting.well(NAME[1])
    assert setting.publisher.offers == {}
    setting.reports((*NAME, "disk0"), replace(WELL, used_bytes=200))
    (entry,) = (each for each in setting.publisher.offers[NAME]["disks"] if each["name"] == "disk0")
    assert entry["usedBytes"] == 200
    setting.publisher.offers.clear()
    # That the agent gets no CPU is told at once, even if no disk has changed.
    setting.reports((*NAME, "disk0"), replace(WELL, used_bytes=200, late=5.0))
    assert "starved" in setting.publisher.offers[NAME]


async def test_starvation_that_begins_while_a_worker_starts_is_told_when_it_reports(setting: Setting) -> None:
    setting.sees(NAME[1])
    setting.well(NAME[1])
    setting.node.worker_started((*NAME, "disk0"))
    setting.publisher.offers.clear()
    setting.reports((*NAME, "disk1"), replace(WELL, late=5.0))
    assert setting.publisher.offers == {}, "nothing is told before all disks were seen"
    setting.reports((*NAME, "disk0"), WELL)
    assert "starved" in setting.publisher.offers[NAME]


async def test_a_first_error_is_asked_for_again_and_a_second_is_told(setting: Setting) -> None:
    setting.sees(NAME[1])
    setting.well(NAME[1])
    key, error = (*NAME, "disk1"), replace(WELL, errno=errno.EIO)
    setting.reports(key, error)
    assert setting.pool.asked == [key]
    assert setting.told()["disk1"] != "Failed"
    setting.reports(key, error)
    assert setting.told() == {"disk0": "Healthy", "disk1": "Failed"}
    assert setting.pool.asked == [key]


async def test_what_was_told_before_counts_after_a_restart(setting: Setting) -> None:
    earlier = {"name": "disk1", "verdict": "Failed", "reason": "ProbeError", "since": "2026-01-01T00:00:00Z"}
    setting.sees(NAME[1], observed={"disks": [earlier]})
    setting.well(NAME[1])
    assert setting.told() == {"disk0": "Healthy", "disk1": "Failed"}


async def test_brokers_and_disks_come_and_go(setting: Setting) -> None:
    setting.sees("b0", "b1")
    assert set(setting.pool.watched) == {("ns", name, disk) for name in ("b0", "b1") for disk in DISKS}
    assert len(list(setting.node.brokers())) == 2
    one = kafka_broker("b0")
    one["spec"]["disks"].pop()
    setting.node.sees({("ns", "b0"): one})
    assert set(setting.pool.watched) == {("ns", "b0", "disk0")}
    assert set(setting.node.disks) == {("ns", "b0", "disk0")}
    assert set(setting.publisher.seen) == {("ns", "b0")}
    setting.reports(("ns", "b1", "disk0"), WELL)  # a late report of one that is gone


class CsiSetting(Setting):
    """A node whose agent sees the kubelet's folder of pods."""

    more = ("--kubelet-pods=/pods",)

    def pod(self, uid: str) -> None:
        obj = kafka_broker(NAME[1])
        disks = [{"name": disk, "pv": f"pv-{disk}", "volumeType": "csi"} for disk in DISKS]
        self.node.sees({NAME: obj | {"status": {"disks": disks, "podUid": uid}}})

    def path(self, disk: str) -> str:
        return self.pool.watched[(*NAME, disk)].path

    def why(self) -> dict[str, str]:
        return {each["name"]: each["message"] for each in self.publisher.offers[NAME].get("unwatched", ())}


async def test_the_volumes_of_a_pod_are_told_as_long_as_they_are_mounted() -> None:
    setting = CsiSetting()
    setting.pod("uid-1")
    assert setting.path("disk0") == "/pods/uid-1/volumes/kubernetes.io~csi/pv-disk0/mount"
    setting.well(NAME[1])
    assert setting.told() == {"disk0": "Healthy", "disk1": "Healthy"}
    assert setting.why() == {}

    setting.reports((*NAME, "disk1"), replace(WELL, mounted=False))
    assert setting.told() == {"disk0": "Healthy"}
    assert setting.why() == {"disk1": "The kubelet has not mounted the volume for the pod of its broker."}
    setting.reports((*NAME, "disk1"), replace(WELL, readable=False))
    assert "may not open" in setting.why()["disk1"]

    setting.pod("uid-2")
    assert setting.path("disk1") == "/pods/uid-2/volumes/kubernetes.io~csi/pv-disk1/mount"
    setting.well(NAME[1])
    assert setting.told() == {"disk0": "Healthy", "disk1": "Healthy"}
    setting.pod("")
    assert setting.pool.watched == {}
    assert set(setting.why()) == set(DISKS)
    assert setting.told() == {}
    setting.node.sees({})


async def test_a_volume_that_was_never_mounted_is_told_at_once() -> None:
    setting = CsiSetting()
    setting.pod("uid-1")
    for disk in DISKS:
        away = replace(WELL, mounted=False)
        setting.reports((*NAME, disk), Inspected(at=0, found=Found(mounted=False)), away)
    assert set(setting.why()) == set(DISKS)
    setting.node.sees({})


async def test_another_pace_reaches_the_workers(setting: Setting) -> None:
    setting.sees(NAME[1])
    assert {watch.interval for watch in setting.pool.watched.values()} == {2.0}
    await setting.node._retune()
    assert {watch.interval for watch in setting.pool.watched.values()} == {5.0}


async def test_latency_is_compared_with_the_nodes_other_disks(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counters(slow_ms: int, requests: int) -> dict[str, Counters]:
        return {"8:0": Counters(requests, requests), "8:1": Counters(requests, slow_ms)}

    readings: Iterator[Any] = iter([counters(0, 0), counters(90_000, 100), OSError("gone")])

    def read() -> Any:
        reading = next(readings)
        if isinstance(reading, OSError):
            raise reading
        return reading

    monkeypatch.setattr(diskstats, "read", read)
    setting.sees(NAME[1])
    setting.well(NAME[1])
    for now in (100.0, 102.0, 104.0):
        setting.node._measure(now)
    slow = setting.node.latency_of(setting.node.disks[*NAME, "disk1"])
    assert (slow.own_ms, slow.peers_ms) == (900.0, 1.0)


async def test_all_is_shown_to_prometheus_and_on_the_pages(setting: Setting) -> None:
    setting.sees(NAME[1])
    setting.well(NAME[1])

    class Age:
        def age(self, _: float) -> float:
            return 4.0

        def silence(self, _: float) -> None:
            return None

    state = NodeState(setting.node, cast("Any", setting.publisher), cast("Any", Age()), cast("Any", Age()))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in state.collect()
        for sample in family.samples
    }
    disk = ("ns", "demo", "demo-broker-0", "disk0")
    assert samples["spindle_agent_disk_verdict", *disk, "Healthy"] == 1
    assert ("spindle_agent_disk_verdict", *disk, "Failed") not in samples
    assert samples["spindle_agent_disk_used_bytes", *disk] == 100
    assert samples["spindle_agent_broker_answers", "ns", "demo", "demo-broker-0"] == 0
    assert samples["spindle_agent_status_writes_total",] == 3
    assert samples["spindle_agent_heartbeat_age_seconds",] == 4.0
    assert ("spindle_agent_api_age_seconds",) not in samples

    async def nothing() -> bytes:
        return b""

    problems: list[str] = []
    app = pages(lambda: problems[0] if problems else None, lambda: not problems, nothing)
    async with TestClient(TestServer(app)) as client:
        assert [(await client.get(page)).status for page in ("/healthz", "/readyz", "/metrics")] == [200] * 3
        problems.append("stuck")
        assert [(await client.get(page)).status for page in ("/healthz", "/readyz")] == [500, 503]


async def test_every_metric_of_a_disk_and_a_broker_is_exported_as_often_as_the_list_says(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.sees(NAME[1])
    setting.well(NAME[1])
    keys = [(*NAME, disk) for disk in DISKS]
    etas = {name: ThresholdEta(at=2e9, low=1e9, high=float("inf")) for name in THRESHOLDS}
    forecasts = [(key, UsageForecast(0.0, 1.0, 1000.0, etas)) for key in keys]
    report = SimpleNamespace(checked=1, bytes=2, oldest=None, corrupt=0)
    scrubs = SimpleNamespace(reports=lambda: [(key, report, 10, 2) for key in keys], keep=lambda _: None)
    monkeypatch.setattr(setting.node.fills, "forecasts", lambda: forecasts)
    monkeypatch.setattr(setting.node, "scrubs", scrubs)
    monkeypatch.setattr(setting.node, "latency_of", lambda _: Latency(own_ms=1.0, peers_ms=1.0))
    age = SimpleNamespace(age=lambda _: 4.0, silence=lambda _: 1.0)
    registry = CollectorRegistry()
    registry.register(NodeState(setting.node, *(cast("Any", each) for each in (setting.publisher, age, age))))
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    counts = Counter(sample.name for family in families for sample in family.samples)
    listed = [metric for section in table.OF_AGENT for metric in section.metrics]
    # Probes are in the default registry; the throttle is there only while moves run.
    expected = {
        metric.name: metric.count * {True: len(DISKS)}.get("disk" in metric.labels, 1)
        for metric in (*listed, table.BUILD_INFO)
        if metric not in (table.AGENT_PROBES, table.AGENT_THROTTLE)
    }
    assert counts == expected
    never = [sample for family in families for sample in family.samples if sample.value == float("inf")]
    assert {sample.labels["bound"] for sample in never} == {"high"}


def test_probes_of_a_disk_that_is_gone_are_forgotten() -> None:
    probes = metrics.ProbeTimes()
    kept, gone = (("ns", "demo", "demo-broker-9", disk) for disk in DISKS)
    for labels in (kept, gone):
        probes.observe(labels, 0.003)
    probes.keep([kept])
    text = generate_latest().decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    found = [s for s in samples if s.labels.get("broker") == "demo-broker-9"]
    assert {s.labels["disk"] for s in found} == {"disk0"}
    assert len(found) == table.AGENT_PROBES.count
    probes.keep([])


# --- the broker


async def test_what_the_broker_said_counts_for_a_while_only() -> None:
    session = BrokerSession(
        NAME, parse(["--node=here"]), cast("Any", NoBroker()), Mover("b", {}), lambda: None
    )
    assert session.error_of("/a", 0.0) is None
    session._dirs, session._asked_at = (LogDir("/a"), LogDir("/b", 56)), 100.0
    assert [session.error_of(path, 110.0) for path in ("/a", "/b", "/c")] == [0, 56, None]
    assert session.answered(110.0)
    assert session.error_of("/b", 131.0) is None
    assert not session.answered(131.0)


async def test_a_broker_that_cannot_be_asked_is_asked_again() -> None:
    session = BrokerSession(
        NAME, parse(["--node=here"]), cast("Any", NoBroker()), Mover("b", {}), lambda: None
    )
    session.wants({"cluster": "demo", "id": 0})
    task = asyncio.create_task(session.run())
    await until(lambda: session._problem == "no Secret here")
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_a_broker_that_takes_connections_and_says_nothing_costs_one_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections: list[Any] = []

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = BrokerConnection(Access("127.0.0.1", port, b"", b"", b""), 0.2)
    with pytest.raises(BrokerError):
        await wire.ask(None, 0)  # what opens it is no certificate: told, not raised as it is
    monkeypatch.setattr(Access, "context", lambda _: ssl.create_default_context())
    async with asyncio.timeout(30):
        with pytest.raises(BrokerError, match="no answer within"):
            await wire.ask(None, 0)
    server.close()


async def test_nobody_at_the_port_is_told_at_once() -> None:
    wire = BrokerConnection(Access("127.0.0.1", 1, b"", b"", b""), 5)
    with pytest.raises(BrokerError):
        await wire.ask(None, 0)

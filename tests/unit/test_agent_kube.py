"""The agent and the API server: what is watched, written and renewed, and what happens while the server is away."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from spindle.api import names
from spindle.disks.findings import ProbeSettings
from spindle_agent.backoff import Backoff
from spindle_agent.broker import keys
from spindle_agent.broker.connection import Access
from spindle_agent.broker.credentials import Credentials
from spindle_agent.broker.keys import AgentKey
from spindle_agent.disk_settings import DiskSettings
from spindle_agent.heartbeat import Heartbeat
from spindle_agent.kube import Token
from spindle_agent.publish import FIGURES_EVERY, PROGRESS_EVERY, Publisher, Writer, significant
from spindle_agent.tasks import Tasks
from spindle_agent.watch import Brokers
from spindle_operator import ca
from spindle_shared.api_answers import ApiError
from tests.unit.agent_fakes import FakeApi, broker, until

NAME = ("ns", "demo-broker-0")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "failed", lambda _: 0.01)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
        assert not task.done(), "it ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task])


# --- the watch


@pytest.mark.parametrize("selectable", [True, False])
async def test_only_this_nodes_brokers_are_kept_and_kept_up_to_date(
    api: FakeApi, tmp_path: Path, *, selectable: bool
) -> None:
    api.selectable = selectable
    for index, node in enumerate(("here", "there", "here", "")):
        api.put(broker(f"b{index}", node))
    changes: list[int] = []
    async with api.serve(tmp_path) as kube:
        brokers = Brokers(kube, (), "here", lambda: changes.append(1))
        assert not brokers.known
        async with running(brokers.run()):
            await until(lambda: brokers.known)
            assert {name for _, name in brokers.mine} == {"b0", "b2"}
            assert "managedFields" not in brokers.mine["ns", "b0"]["metadata"]

            api.put(broker("b1", "here"))  # moved
            api.put(broker("b0", "there"))
            api.remove("b2")
            await until(lambda: {name for _, name in brokers.mine} == {"b1"})
            before = len(changes)
            api.put(broker("b9", "there"))
            api.put(broker("b1", "here", id=7))
            await until(lambda: brokers.mine["ns", "b1"]["spec"]["id"] == 7)
            assert len(changes) == before + 1, "others' brokers wake nobody"


async def test_it_waits_for_a_server_that_is_away_at_the_start(api: FakeApi, tmp_path: Path) -> None:
    api.away = 503
    api.put(broker("b0"))
    async with api.serve(tmp_path) as kube:
        brokers = Brokers(kube, (), "here", lambda: None)
        async with running(brokers.run()):
            await asyncio.sleep(0.1)
            assert not brokers.known
            api.away = 0
            await until(lambda: len(brokers.mine) == 1)


async def test_what_was_known_is_kept_while_the_server_is_away(api: FakeApi, tmp_path: Path) -> None:
    api.put(broker("b0"))
    async with api.serve(tmp_path) as kube:
        brokers = Brokers(kube, (), "here", lambda: None)
        async with running(brokers.run()):
            await until(lambda: brokers.known)
            api.away = 503
            api.expire()
            await asyncio.sleep(0.1)
            assert len(brokers.mine) == 1
            api.put(broker("b1"))
            api.remove("b0")
            api.away = 0
            await until(lambda: {name for _, name in brokers.mine} == {"b1"})


async def test_a_watch_that_is_too_old_is_followed_by_a_list(api: FakeApi, tmp_path: Path) -> None:
    async with api.serve(tmp_path) as kube:
        brokers = Brokers(kube, ("ns",), "here", lambda: None)
        async with running(brokers.run()):
            await until(lambda: brokers.known)
            lists = api.lists
            await until(lambda: bool(api._watchers))
            api.expire()
            await until(lambda: api.lists > lists)


# --- the status


async def test_a_verdict_is_written_at_once_and_only_once(api: FakeApi, tmp_path: Path) -> None:
    async with api.serve(tmp_path) as kube:
        publisher = Publisher(kube, Tasks(lambda: None))
        publisher.see(NAME, None)
        observed = {"disks": [{"name": "disk0", "verdict": "Healthy"}]}
        publisher.offer(NAME, observed)
        publisher.offer(NAME, {**observed})
        await until(lambda: len(api.statuses) == 1)
        publisher.offer(NAME, {**observed})
        await asyncio.sleep(0.05)
        assert api.statuses == [("demo-broker-0", observed)]
        publisher.offer(NAME, {"disks": [{"name": "disk0", "verdict": "Failed"}]})
        await until(lambda: len(api.statuses) == 2)
        assert api.statuses[-1][1]["disks"][0]["verdict"] == "Failed"
        publisher.forget(NAME)


async def test_what_stands_there_already_is_not_written_again(api: FakeApi, tmp_path: Path) -> None:
    observed = {"disks": [{"name": "disk0", "verdict": "Healthy"}]}
    async with api.serve(tmp_path) as kube:
        publisher = Publisher(kube, Tasks(lambda: None))
        publisher.see(NAME, observed)
        publisher.offer(NAME, {**observed})
        await asyncio.sleep(0.05)
        assert api.statuses == []
        publisher.see(NAME, None)  # somebody took it away
        await until(lambda: [told for _, told in api.statuses] == [observed])
        publisher.forget(NAME)


async def test_the_latest_is_written_when_the_server_is_back(api: FakeApi, tmp_path: Path) -> None:
    api.refuse_status = 503
    async with api.serve(tmp_path) as kube:
        publisher = Publisher(kube, Tasks(lambda: None))
        publisher.see(NAME, None)
        for verdict in ("Suspect", "Failed", "Healthy", "Slow"):
            publisher.offer(NAME, {"disks": [{"name": "disk0", "verdict": verdict}]})
            await asyncio.sleep(0.03)
        assert publisher.writes == 0
        api.refuse_status = 0
        await until(lambda: bool(api.statuses))
        assert api.statuses[-1][1]["disks"][0]["verdict"] == "Slow"
        publisher.forget(NAME)


def _writer(stands: dict[str, Any]) -> Writer:
    async def write(_: dict[str, Any]) -> None:
        pass

    return Writer(NAME, write, stands, lambda: None)


def test_figures_alone_are_no_reason_to_hurry() -> None:
    def observed(used: int, copied: int, verdict: str = "Healthy") -> dict[str, Any]:
        return {
            "disks": [{"name": "disk0", "verdict": verdict, "usedBytes": used, "capacityBytes": 100}],
            "moves": [{"topic": "t", "state": "Copying", "copied": copied}],
        }

    writer = _writer(observed(1, 1))
    writer._written_at = 100.0

    writer.offer(observed(1, 1))
    assert writer.due(101.0) is None
    writer.offer(observed(2, 1))
    assert writer.due(101.0) == FIGURES_EVERY - 1
    writer.offer(observed(2, 2))
    assert writer.due(101.0) == PROGRESS_EVERY - 1
    writer.offer(observed(20, 1))
    assert writer.due(101.0) == PROGRESS_EVERY - 1, "much was written or freed"
    writer.offer(observed(2, 2, "Failed"))
    assert writer.due(101.0) == 0.0
    assert significant(observed(1, 1)) == significant(observed(2, 2))


# --- the Lease, the token, the certificates, the tuning


async def test_the_lease_is_renewed_with_the_time(api: FakeApi, tmp_path: Path) -> None:
    async with api.serve(tmp_path) as kube:
        heartbeat = Heartbeat(kube, "agents", "node1", b"a request")
        assert heartbeat.age(0.0) is None
        async with running(heartbeat.run()):
            await until(lambda: bool(api.leases))
        (lease,) = api.leases
        assert lease["metadata"]["name"] == "spindle-agent-node1"
        assert lease["spec"]["renewTime"].endswith("Z")
        assert lease["spec"]["leaseDurationSeconds"] == 30
        assert lease["metadata"]["annotations"] == {
            "spindle.dev/signing-request": "a request",
            "spindle.dev/certificate-parts": "16",
        }


async def test_the_token_is_read_again_when_the_server_does_not_take_it(api: FakeApi, tmp_path: Path) -> None:
    async with api.serve(tmp_path) as kube:
        await kube.brokers("")
        (tmp_path / "token").write_text("secret-2\n")
        await kube.brokers("")
        api.away = 401
        with pytest.raises(ApiError):
            await kube.brokers("")
        api.away = 0
        await kube.brokers("")
        assert api.tokens == [f"Bearer secret-{number}" for number in (1, 1, 1, 2)]


def test_the_token_is_read_again_now_and_then_and_kept_while_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = Token(file)
    assert token.value(0) == ""
    file.write_text("one\n")
    assert token.value(1) == "one"
    file.write_text("two\n")
    assert token.value(30) == "one"
    assert token.value(62) == "two"
    file.unlink()
    assert token.value(200) == "two"


def certified(key: AgentKey, authority: ca.Pem) -> dict[str, str]:
    signed = ca.grant(authority, key.request, "spindle-agent.node1", 7)
    return {"CA.crt": authority.cert.decode(), "node1": signed.decode()}


async def test_certificates_are_kept_while_the_server_is_away(api: FakeApi, tmp_path: Path) -> None:
    key, former, authority = keys.parse(keys.make("node1")), keys.parse(keys.make("node1")), ca.make_ca("a")
    async with api.serve(tmp_path) as kube:
        credentials = Credentials(kube, "agents", "node1", key)
        none = r"agents/ns\.demo\.spindle-agent\.c has no certificate for node1"
        with pytest.raises(LookupError, match=none):
            await credentials.of("ns", "demo")
        for useless in ({}, certified(former, authority), certified(key, authority) | {"CA.crt": ""}):
            api.config_maps["ns.demo.spindle-agent"] = {"data": useless}
            with pytest.raises(LookupError, match=none):
                await credentials.of("ns", "demo")
        data = certified(key, authority)
        api.config_maps["ns.demo.spindle-agent"] = {"data": data}
        had = (data["CA.crt"].encode(), data["node1"].encode(), key.private)
        assert await credentials.of("ns", "demo") == had
        Access("host", 1, *had).context()
        api.away = 503
        credentials.doubt("ns", "demo")
        assert await credentials.of("ns", "demo") == had
        with pytest.raises(ApiError):
            await credentials.of("ns", "other")


async def test_an_agent_reads_its_part_and_what_operators_of_before_write(
    api: FakeApi, tmp_path: Path
) -> None:
    key, authority = keys.parse(keys.make("node1")), ca.make_ca("a")
    whole, part = names.agent_certificates("ns", "demo"), names.agent_part("ns", "demo", "node1")
    async with api.serve(tmp_path) as kube:
        credentials = Credentials(kube, "agents", "node1", key)

        async def has() -> str:
            credentials.doubt("ns", "demo")
            return (await credentials.of("ns", "demo"))[1].decode()

        api.config_maps[whole] = {"data": (old := certified(key, authority))}
        assert await has() == old["node1"]
        api.config_maps[part] = {"data": (new := certified(key, authority))}
        assert await has() == new["node1"]
        del api.config_maps[whole]
        assert await has() == new["node1"]
        # The operator was replaced by one of the version before, which does not renew the part: what Kafka refuses is not used again.
        api.config_maps[whole] = {"data": (renewed := certified(key, authority))}
        assert await has() == renewed["node1"]

        asked = Counter[str]()
        find = kube.config_map

        async def counted(namespace: str, name: str) -> Any:
            asked[name] += 1
            return await find(namespace, name)

        kube.config_map = counted  # type: ignore[method-assign]
        assert (await Credentials(kube, "agents", "node1", key).of("ns", "demo"))[1].decode() == new["node1"]
        assert asked == {part: 1}


def test_a_key_outlives_its_process_where_it_is_kept_and_nobody_else_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    key = keys.load_or_make("node1", file)
    assert keys.load_or_make("node1", file) == key
    assert file.stat().st_mode & 0o777 == 0o600
    assert key.private.decode() not in repr(key)
    asked = ca.read_request(key.request, "spindle-agent.node1")
    assert sha256(key.public).hexdigest() == asked.key
    file.write_text("torn")
    assert keys.load_or_make("node1", file) != key
    assert not key.fits("no certificate")


async def test_how_disks_are_watched_is_the_clusters_to_say(api: FakeApi, tmp_path: Path) -> None:
    api.clusters["demo"] = {"spec": {"disks": {"probeIntervalSeconds": 5, "hungAfterSeconds": 30}}}
    async with api.serve(tmp_path) as kube:
        disk_settings = DiskSettings(kube)
        assert disk_settings.of("ns", "demo") == ProbeSettings()
        assert await disk_settings.refresh("ns", "demo")
        assert disk_settings.of("ns", "demo") == ProbeSettings(5.0, 30.0)
        assert not await disk_settings.refresh("ns", "none")
        assert disk_settings.of("ns", "none") == ProbeSettings()


async def test_whose_the_disks_are_is_asked_for_until_it_is_told(api: FakeApi, tmp_path: Path) -> None:
    api.clusters["demo"] = {"spec": {}}
    async with api.serve(tmp_path) as kube:
        disk_settings = DiskSettings(kube)
        assert not await disk_settings.refresh("ns", "demo")
        assert disk_settings.cluster_id("ns", "demo") == ""
        api.clusters["demo"] = {"spec": {}, "status": {"clusterId": "id"}}
        assert await disk_settings.refresh("ns", "demo")
        assert disk_settings.cluster_id("ns", "demo") == "id"
        api.away = 503
        assert not await disk_settings.refresh("ns", "demo"), "what is known is not old yet"
        assert disk_settings.cluster_id("ns", "demo") == "id"


async def test_a_task_that_ends_by_itself_is_a_fault() -> None:
    faults: list[int] = []
    tasks = Tasks(lambda: faults.append(1))

    async def broken() -> None:
        raise RuntimeError("oh")

    tasks.start(asyncio.sleep(60), "goes on").cancel()
    await asyncio.wait([tasks.start(broken(), "breaks")])
    await asyncio.sleep(0)
    assert faults == [1]

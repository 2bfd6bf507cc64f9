"""The cache with a server of the test's own: what it answers, and when it does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from spindle.model import watched
from spindle_operator import kube as kube_module
from spindle_operator import mirror as mirror_module
from spindle_operator.kinds import NODE, POD, SECRET
from spindle_operator.kube import ByteBudget, Kube
from spindle_operator.mirror import Mirror
from spindle_shared import logs
from spindle_shared.api_answers import ApiError


def pod(name: str, version: int, cluster: str = "demo") -> dict[str, Any]:
    labels = {"spindle.dev/cluster": cluster}
    meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": labels, "managedFields": [{}]}}


class Server:
    """Lists what it holds, and sends what the test tells it to."""

    def __init__(self) -> None:
        self.held = {"a": pod("a", 1), "x": pod("x", 2, "other")}
        self.version = 2
        self.lists = 0
        self.looks = 0  # at the resourceVersion alone
        self.watches: list[str] = []  # the resourceVersion that each started from
        self.refuse = 0  # status of each watch
        self.hide = 0  # status of each list
        self.ends = False  # whether each watch ends at once
        self.after_list: list[bytes | None] = []  # sent once, when the next list was answered
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") != "true":
            if self.hide:
                return web.json_response({"reason": "Refused", "message": "no"}, status=self.hide)
            meta = {"resourceVersion": str(self.version)}
            if request.query.get("limit") == "1":
                self.looks += 1
                return web.json_response({"metadata": meta, "items": []})
            self.lists += 1
            while self.after_list:
                self.queue.put_nowait(self.after_list.pop())
            return web.json_response({"metadata": meta, "items": [*self.held.values()]})
        self.watches.append(request.query["resourceVersion"])
        assert request.query["allowWatchBookmarks"] == "true"
        if self.refuse:
            return web.json_response({"reason": "Refused", "message": "no"}, status=self.refuse)
        response = web.StreamResponse()
        await response.prepare(request)
        if self.ends:
            return response
        while (line := await self.queue.get()) is not None:
            await response.write(line)
        return response

    def send(self, what: str, obj: dict[str, Any]) -> None:
        self.version = int(obj["metadata"].get("resourceVersion") or self.version)
        self.queue.put_nowait(json.dumps({"type": what, "object": obj}).encode() + b"\n")

    def change(self, obj: dict[str, Any]) -> None:
        self.held[obj["metadata"]["name"]] = obj
        self.send("MODIFIED", obj)


class Setting:
    def __init__(self, server: Server, kube: Kube) -> None:
        self.server, self.kube = server, kube
        self.told: list[tuple[str | None, str]] = []
        self.mirror = Mirror(kube, 1 << 20, lambda namespace, text: self.told.append((namespace, text)))

    async def names(self) -> list[str] | None:
        found = await self.mirror.items(POD, "ns", "demo", None)
        return None if found is None else [each["metadata"]["name"] for each in found]

    async def until(self, wanted: Any) -> None:
        async with asyncio.timeout(10):
            while await self.names() != wanted:  # noqa: ASYNC110 - events come from the code under test
                await asyncio.sleep(0.01)

    async def watched_twice(self) -> None:
        async with asyncio.timeout(10):
            while len(self.server.watches) < 2:  # noqa: ASYNC110 - the request comes from the code under test
                await asyncio.sleep(0.01)


@pytest.fixture
async def setting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setting]:
    monkeypatch.setattr(mirror_module, "_PAUSES", (0.05, 0.1))
    monkeypatch.setattr(mirror_module, "_CATCH_UP", 0.2)
    monkeypatch.setattr(mirror_module, "_BETWEEN", 0.1)
    monkeypatch.setattr(mirror_module, "SETTLE", 0.1)
    server = Server()
    app = web.Application()
    for path in ("namespaces/ns/pods", "namespaces/ns/secrets", "nodes"):
        app.router.add_get(f"/api/v1/{path}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    kube = Kube(configuration)
    made = Setting(server, kube)
    yield made
    await made.mirror.close()
    await kube.close()
    await runner.cleanup()


async def test_a_list_holds_what_the_cache_has_only_if_all_of_it_is_the_same(setting: Setting) -> None:
    async def listed() -> dict[str, Any]:
        same = setting.mirror.same(POD, "ns", labelled=True)
        selector = "spindle.dev/cluster=demo"
        return (await setting.kube.items(POD, "ns", selector=selector, same=same))[0]

    assert (await listed())["metadata"]["name"] == "a", "without a cache, too"
    await setting.until(["a"])
    cached = await setting.mirror.items(POD, "ns", "demo", None)
    assert cached is not None
    assert await listed() is cached[0]
    # A server whose data was restored may give a version twice.
    setting.server.held["a"] = {**pod("a", 1), "spec": {"nodeName": "n2"}}
    found = await listed()
    assert found["spec"] == {"nodeName": "n2"}
    assert "spec" not in cached[0]


async def test_it_lists_once_and_then_follows(setting: Setting) -> None:
    assert await setting.names() is None  # nothing was read yet: the pass lists
    await setting.until(["a"])
    setting.server.send("ADDED", pod("b", 5))
    await setting.until(["a", "b"])
    setting.server.send("DELETED", pod("a", 6))
    await setting.until(["b"])
    found = (await setting.mirror.items(POD, "ns", "demo", None) or [])[0]
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    assert "managedFields" not in found["metadata"]
    assert setting.server.lists == 1
    assert setting.server.watches == ["2"]


async def test_a_change_that_is_known_is_waited_for_and_an_older_state_is_no_answer(setting: Setting) -> None:
    await setting.until(["a"])
    setting.mirror.happened(POD, pod("b", 7))
    assert await setting.names() is None
    setting.server.send("BOOKMARK", {"metadata": {"resourceVersion": "7"}})
    await setting.until(["a"])


async def test_a_connection_that_ends_is_resumed_from_where_it_was(setting: Setting) -> None:
    await setting.until(["a"])
    setting.server.send("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    setting.server.queue.put_nowait(None)
    await setting.watched_twice()
    await setting.until(["a"])
    assert setting.server.watches == ["2", "9"]
    assert (setting.server.lists, setting.server.looks) == (1, 1)


@pytest.mark.parametrize("as_event", [True, False])
async def test_a_version_that_expired_leads_to_a_new_list(setting: Setting, as_event: bool) -> None:
    await setting.until(["a"])
    setting.server.held = {"c": pod("c", 20)}  # a is deleted while nobody watches
    setting.server.version = 20
    if as_event:
        gone = {"code": 410, "reason": "Expired", "message": "too old", "metadata": {}}
        setting.server.send("ERROR", gone)
        setting.server.version = 20
    else:
        setting.server.refuse = 410
        setting.server.queue.put_nowait(None)
        await setting.watched_twice()
        setting.server.refuse = 0
    await setting.until(["c"])
    assert setting.server.watches[-1] == "20"


async def test_what_may_not_be_watched_is_left_to_lists(setting: Setting) -> None:
    setting.server.refuse = 403
    for _ in range(25):
        assert await setting.names() is None
        await asyncio.sleep(0.02)
    assert setting.server.lists == 1  # and not one each second, for nothing


async def test_what_may_not_be_listed_any_more_is_not_told_from_the_cache(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "RELIST", 0.3)
    await setting.until(["a"])
    setting.server.hide = 403
    await setting.until(None)
    await asyncio.sleep(0.5)
    assert await setting.names() is None


async def test_a_server_that_ends_each_watch_at_once_is_not_pestered(setting: Setting) -> None:
    setting.server.ends = True
    await setting.names()
    await asyncio.sleep(0.5)
    assert 2 <= len(setting.server.watches) <= 12


async def test_a_server_with_an_older_state_is_listed_anew(setting: Setting) -> None:
    """It was restored from a backup. A watch from a resourceVersion that it has not reached reports nothing."""
    setting.server.version = 50
    await setting.until(["a"])
    setting.server.held = {"b": pod("b", 20)}
    setting.server.version = 20
    setting.server.queue.put_nowait(None)
    await setting.until(["b"])
    assert setting.server.watches[-1] == "20"


async def test_after_an_outage_all_is_listed_anew(setting: Setting) -> None:
    """The server may have been restored from a backup, and have passed the former resourceVersion since."""
    await setting.until(["a"])
    setting.server.hide = 503
    setting.server.queue.put_nowait(None)
    await asyncio.sleep(0.5)
    setting.server.held, setting.server.version = {"b": pod("b", 60)}, 60
    setting.server.hide = 0
    await setting.until(["b"])


async def test_a_watch_belongs_to_no_pass(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    passes, listed = list[str](), setting.kube.listed

    async def recorded(*args: Any, **more: Any) -> Any:
        passes.append(logs._current_pass.get())
        return await listed(*args, **more)

    monkeypatch.setattr(setting.kube, "listed", recorded)
    logs.begin_pass()
    await setting.until(["a"])
    assert passes == [""]


async def test_a_version_that_was_undone_is_not_waited_for(setting: Setting) -> None:
    await setting.until(["a"])
    setting.mirror.happened(POD, pod("a", 70))
    assert await setting.names() is None
    setting.server.version = 2  # restored
    setting.server.send("ERROR", {"code": 410, "reason": "Expired", "message": "no", "metadata": {}})
    await setting.until(["a"])


async def test_after_a_long_silence_all_is_listed_anew(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await setting.until(["a"])
    monkeypatch.setattr(watched, "QUIET_SECONDS", -1.0)
    setting.server.queue.put_nowait(None)
    async with asyncio.timeout(10):
        while setting.server.lists < 2:  # noqa: ASYNC110 - the request comes from the code under test
            await asyncio.sleep(0.01)


async def test_a_comparison_that_the_end_of_the_watch_cut_short_is_made_up_for(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server ends watches after five minutes: one of two ends when the comparison is due."""
    monkeypatch.setattr(mirror_module, "RELIST", 3.0)
    monkeypatch.setattr(mirror_module, "SETTLE", 0.3)
    await setting.until(["a"])
    setting.server.held["b"] = pod("b", 30)  # without an event
    setting.server.version = 30
    setting.server.after_list = [None]
    async with asyncio.timeout(5):
        while not setting.told:  # noqa: ASYNC110 - the report comes from the code under test
            await asyncio.sleep(0.01)


async def test_what_exceeds_the_limit_is_not_listed_again_and_again(setting: Setting) -> None:
    await setting.until(["a"])
    large = pod("b", 40)
    large["data"] = "x" * (1 << 20)
    setting.server.send("ADDED", large)
    await setting.until(None)
    await asyncio.sleep(0.5)
    assert setting.server.lists == 1


async def test_the_limit_is_one_of_the_whole_namespace(setting: Setting) -> None:
    """A tenant can create objects of many kinds: what the cache holds of them together is limited."""
    setting.server.held["b"] = {**pod("b", 2), "data": "x" * 600_000}
    await setting.until(["a", "b"])

    async def others() -> Any:
        return await setting.mirror.items(SECRET, "ns", "demo", None)

    for _ in range(30):
        assert await others() is None
        await asyncio.sleep(0.02)
    assert await setting.names() == ["a", "b"]
    async with asyncio.timeout(10):
        while await setting.mirror.items(NODE, None, None, None) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_clock_that_jumps_changes_nothing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    await setting.until(["a"])
    for jump in (1e6, -1e6):
        monkeypatch.setattr("time.time", lambda jump=jump: jump)
        assert await setting.names() == ["a"]


async def test_a_half_open_connection_is_given_up(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_module, "_WATCHING", aiohttp.ClientTimeout(total=30, sock_read=0.3))
    await setting.until(["a"])
    await setting.watched_twice()
    await setting.until(["a"])


async def test_a_silent_watch_is_no_answer(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    await setting.until(["a"])
    monkeypatch.setattr(watched, "QUIET_SECONDS", -1.0)
    assert await setting.names() is None


async def test_a_list_finds_what_the_watch_did_not_report(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "RELIST", 0.3)
    await setting.until(["a"])
    setting.server.held["b"] = pod("b", 30)  # without an event
    setting.server.version = 30
    await setting.until(["a", "b"])
    ((namespace, text),) = setting.told
    assert namespace == "ns"
    assert "pods did not report changes of 1 objects (b)" in text


async def test_what_the_watch_reports_in_time_is_not_missed(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "RELIST", 0.2)
    await setting.until(["a"])
    async with asyncio.timeout(10):
        version = 100
        while setting.server.lists < 3:  # one for each comparison
            version += 1
            setting.server.change(pod("a", version))
            await asyncio.sleep(0.02)
    assert setting.told == []


async def test_the_limit_on_bytes_holds_for_the_cache(setting: Setting) -> None:
    await setting.until(["a"])
    with pytest.raises(ApiError, match="too many or too large"):
        await setting.mirror.items(POD, "ns", "demo", ByteBudget(10))


async def test_objects_of_any_size_arrive_whole(setting: Setting) -> None:
    await setting.until(["a"])
    large = pod("b", 40)
    large["data"] = "x" * 700_000
    setting.server.send("ADDED", large)
    await setting.until(["a", "b"])
    found = await setting.mirror.items(POD, "ns", "demo", None) or []
    assert len(found[1]["data"]) == 700_000

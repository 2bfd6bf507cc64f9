"""The cache against a real API server that is restarted, stopped, restored from a backup, cut off, or refuses: it never tells what is not so for long."""

import asyncio
import base64
import contextlib
import json
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.api import names
from spindle.model import watched
from spindle_operator import kube as kube_module
from spindle_operator import mirror as mirror_module
from spindle_operator.kinds import CONFIG_MAP
from spindle_operator.kube import Kube, connect
from spindle_operator.mirror import Mirror
from spindle_shared.api_answers import ApiError

# Servers of their own that are stopped and started: half a minute in all.
pytestmark = [pytest.mark.kube, pytest.mark.slow]

PLACE = "faults"


class Proxy:
    """TCP in front of the API server; what goes through may stall, or be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.open = True  # whether connections are accepted
        self._links: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._stalled: set[asyncio.StreamWriter] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def stall(self) -> None:
        """Present connections stay open, and nothing goes through any more."""
        self._stalled |= {writer for link in self._links for writer in link}

    def cut(self) -> None:
        for link in self._links:
            for writer in link:
                writer.transport.abort()

    async def close(self) -> None:
        self.cut()
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._links.append((writer, back))
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if writer in self._stalled:
                    continue
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Place:
    """A namespace of a server, a hand that edits there, and a cache that looks at it through a proxy."""

    def __init__(self, server: ApiServer, hand: Kube, kube: Kube, mirror: Mirror, proxy: Proxy) -> None:
        self.server, self.hand, self.kube, self.mirror, self.proxy = server, hand, kube, mirror, proxy

    async def make(self, name: str, **data: str) -> dict[str, Any]:
        meta = {"name": name, "labels": {names.LABEL_CLUSTER: "demo"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        return await self.hand.create(body, PLACE)

    async def remove(self, made: dict[str, Any]) -> None:
        await self.hand.delete(CONFIG_MAP, PLACE, made["metadata"]["name"], made["metadata"]["uid"])

    async def cached(self) -> list[dict[str, Any]] | None:
        return await self.mirror.items(CONFIG_MAP, PLACE, "demo", None)

    async def until(self, holds: Callable[[list[dict[str, Any]] | None], bool], seconds: float = 40) -> None:
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while not holds(found := await self.cached()):  # noqa: ASYNC110 - another process changes it
                    await asyncio.sleep(0.05)
        except TimeoutError:
            shown = None if found is None else [each["metadata"]["name"] for each in found]
            raise AssertionError(f"at last the cache had {shown}") from None

    async def until_right(self) -> None:
        """Until the cache has what a list has."""
        wanted = await self.hand.items(CONFIG_MAP, PLACE, selector=f"{names.LABEL_CLUSTER}=demo")
        await self.until(lambda found: found == wanted)


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
async def place(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(mirror_module, "_PAUSES", (0.1, 0.2))
    monkeypatch.setattr(mirror_module, "_LASTING", 0.5)
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    proxy = Proxy(int(server.url.rsplit(":", 1)[-1]))
    server.kubectl("create", "namespace", PLACE, check=False)
    async with connect() as hand, connect() as kube:
        kube.configuration.host = f"https://127.0.0.1:{await proxy.start()}"
        mirror = Mirror(kube, 1 << 24, lambda *_: None)
        made = Place(server, hand, kube, mirror, proxy)
        await made.until(lambda found: found is not None)
        yield made
        await mirror.close()
        await proxy.close()
        for each in await hand.items(CONFIG_MAP, PLACE):
            await made.remove(each)


async def test_states_that_etcd_has_forgotten(place: Place) -> None:
    """410: what the watch missed is listed."""
    gone = await place.make("gone")
    await place.until_right()
    place.proxy.open = False
    place.proxy.cut()
    await place.remove(gone)
    await place.make("new")
    await asyncio.to_thread(place.server.compact)
    place.server.restart()  # without that its own memory has the events
    place.proxy.open = True
    await place.until_right()


async def test_a_connection_that_is_open_on_one_side_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        kube_module, "_WATCHING", aiohttp.ClientTimeout(total=330, sock_connect=5, sock_read=3)
    )
    made = await place.make("a")
    await place.until_right()
    place.proxy.cut()  # the watch begins with the short time-out
    await asyncio.sleep(1)
    await place.until_right()
    place.proxy.stall()
    changed = await place.hand.patch(CONFIG_MAP, PLACE, "a", {"data": {"key": "1"}})
    place.mirror.happened(CONFIG_MAP, changed)  # as another watch reports it
    assert await place.cached() is None
    await place.remove(made)
    await place.until_right()


async def test_a_server_that_stands_still(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.make("a")
    await place.until_right()
    monkeypatch.setattr(watched, "QUIET_SECONDS", 2.0)
    place.server.server.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(2.5)
        assert await place.cached() is None
    finally:
        place.server.server.signal(signal.SIGCONT)
    monkeypatch.undo()
    await place.make("b")
    await place.until_right()


async def test_a_server_that_is_started_again(place: Place) -> None:
    gone = await place.make("gone")
    await place.until_right()
    place.proxy.open = False
    place.server.restart()
    await asyncio.sleep(0.5)
    assert await place.cached() is None
    await place.remove(gone)
    await place.make("new")
    place.proxy.open = True
    await place.until_right()


async def test_a_server_that_was_restored_from_a_backup(place: Place, tmp_path: Path) -> None:
    """Its resourceVersions go backwards, and a watch from a later one reports nothing."""
    await place.make("kept")
    backup = tmp_path / "backup"

    def save(data: Path) -> None:
        shutil.copytree(data, backup)

    def restore(data: Path) -> None:
        shutil.rmtree(data)
        shutil.copytree(backup, data)

    place.server.restart(save)
    await place.until_right()
    made = [await place.make(f"later{number}") for number in range(100)]
    later = made[-1]
    place.mirror.happened(CONFIG_MAP, later)
    await place.until_right()
    place.server.restart(restore)
    await place.until_right()
    after = await place.make("after")
    assert int(after["metadata"]["resourceVersion"]) < int(later["metadata"]["resourceVersion"])
    await place.until_right()


async def test_made_again_under_the_same_name(place: Place) -> None:
    for number in range(30):
        made = await place.make("a", number=str(number))
        if number % 3 == 0:
            await place.until_right()
        if number % 5 == 0:
            place.proxy.cut()
        await place.remove(made)
    made = await place.make("a", number="last")
    await place.until_right()
    assert [each["metadata"]["uid"] for each in await place.cached() or []] == [made["metadata"]["uid"]]


async def test_edits_that_race(place: Place) -> None:
    """By hand, and by the operator as it writes: in the end the cache has what the server has."""
    await place.make("a")

    async def edit(by: str) -> None:
        for number in range(40):
            with contextlib.suppress(ApiError):
                await place.hand.patch(CONFIG_MAP, PLACE, "a", {"data": {by: str(number)}})

    async def replace() -> None:
        for number in range(15):
            made = await place.make(f"b{number % 2}")
            await asyncio.sleep(0.01)
            await place.remove(made)

    await asyncio.gather(edit("hand"), edit("operator"), replace())
    await place.until_right()
    await place.until(lambda found: [each["metadata"]["name"] for each in found or []] == ["a"])


async def test_many_pages_and_one_that_has_expired(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_module, "_PAGE", 5)
    for number in range(23):
        await place.make(f"many{number:02}")
    ask, pages = place.kube.request, list[str]()

    async def request(*args: Any, **more: Any) -> Any:
        query = (args[2] if len(args) > 2 else None) or {}
        if query.get("continue"):
            pages.append(query["continue"])
            if len(pages) == 2:  # between two pages
                raise ApiError(410, "Expired", "the provided continue parameter is too old")
        return await ask(*args, **more)

    monkeypatch.setattr(place.kube, "request", request)
    mirror = Mirror(place.kube, 1 << 24, lambda *_: None)
    try:
        wanted = await place.hand.items(CONFIG_MAP, PLACE, selector=f"{names.LABEL_CLUSTER}=demo")
        async with asyncio.timeout(30):
            while (found := await mirror.items(CONFIG_MAP, PLACE, "demo", None)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await mirror.close()
    assert found == wanted
    assert len(found) == 23
    assert len(pages) > 4


async def test_an_object_that_the_server_cannot_read(place: Place) -> None:
    """Its kind is unknown, as for a list, until the object is repaired or removed."""
    await place.make("a")
    await place.until_right()
    key = {"key": base64.b64encode(f"/registry/configmaps/{PLACE}/broken".encode()).decode()}
    value = base64.b64encode(json.dumps({"kind": 7}).encode()).decode()
    await asyncio.to_thread(place.server.etcd, "kv/put", {**key, "value": value})
    try:
        await place.until(lambda found: found is None)
        with pytest.raises(ApiError):
            await place.kube.items(CONFIG_MAP, PLACE)
    finally:
        await asyncio.to_thread(place.server.etcd, "kv/deleterange", key)
    await place.make("b")
    await place.until_right()


@pytest.mark.parametrize("left", [["list"], ["watch"], []], ids=["list", "watch", "nothing"])
async def test_rights_that_are_withdrawn(
    place: Place, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    """What may not be watched or not be listed any more is not told from the cache."""
    monkeypatch.setattr(mirror_module, "RELIST", 1.0)
    monkeypatch.setattr(mirror_module, "_BETWEEN", 0.2)
    monkeypatch.setattr(mirror_module, "SETTLE", 0.2)
    monkeypatch.setattr(mirror_module, "_REFUSED", 0.5)
    await place.make("a")
    account = f"looker-{len(left)}{''.join(left)}"
    place.server.kubectl("-n", PLACE, "create", "serviceaccount", account)
    token = place.server.kubectl("-n", PLACE, "create", "token", account).strip()

    def allow(verbs: list[str]) -> None:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}] if verbs else []
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": account},
            "rules": rules,
        }
        place.server.kubectl("-n", PLACE, "apply", "-f", "-", stdin=json.dumps(body))

    allow(["list", "watch"])
    binding = (f"--role={account}", f"--serviceaccount={PLACE}:{account}")
    place.server.kubectl("-n", PLACE, "create", "rolebinding", account, *binding)
    configuration = place.kube.configuration
    monkeypatch.setattr(configuration, "cert_file", None)
    monkeypatch.setattr(configuration, "key_file", None)
    configuration.api_key["BearerToken"] = token
    kube = Kube(configuration)
    mirror = Mirror(kube, 1 << 24, lambda *_: None)

    async def until(known: bool) -> None:
        async with asyncio.timeout(30):
            while (await mirror.items(CONFIG_MAP, PLACE, "demo", None) is not None) is not known:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    try:
        await until(known=True)
        allow(left)
        if left == ["list"]:
            place.proxy.cut()  # a right to watch is asked for when a watch begins
        await until(known=False)
        await asyncio.sleep(1)
        assert await mirror.items(CONFIG_MAP, PLACE, "demo", None) is None
        allow(["list", "watch"])
        await until(known=True)
    finally:
        await mirror.close()
        await kube.close()

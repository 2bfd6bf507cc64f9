"""The agent's eyes on real disks: its node, its pool and its workers, with a notebook in place of the API server."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from spindle.disks.findings import ProbeSettings
from spindle.model.disk_identity import Identity, render_identity, render_meta_properties
from spindle.model.ids import uuid_from_entropy
from spindle_agent.node import Node
from spindle_agent.options import parse
from spindle_agent.preflight import filesystem
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.pool import Pool
from spindle_agent.tasks import Tasks
from tests.kafka.disks import Disk, unmount_all_below

NAME = ("test", "demo-broker-0")


@dataclass
class Notebook:
    """In place of the publisher: what was offered, and when each verdict came."""

    latest: dict[str, Any] = field(default_factory=dict)
    at: dict[tuple[str, str], float] = field(default_factory=dict)

    def see(self, name: tuple[str, str], observed: dict[str, Any] | None) -> None:
        pass

    def forget(self, name: tuple[str, str]) -> None:
        pass

    def written(self, name: tuple[str, str]) -> dict[str, Any]:
        return self.latest

    def offer(self, name: tuple[str, str], observed: dict[str, Any]) -> None:
        self.latest = observed
        for disk in observed["disks"]:
            self.at.setdefault((disk["name"], disk["verdict"]), time.monotonic())


class NoSecrets:
    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        raise LookupError("no broker here")

    def doubt(self, namespace: str, cluster: str) -> None:
        pass


@dataclass
class Fixed:
    tuning: ProbeSettings

    def of(self, namespace: str, cluster: str) -> ProbeSettings:
        return self.tuning

    def cluster_id(self, namespace: str, cluster: str) -> str:
        return "cluster"

    async def refresh(self, namespace: str, cluster: str) -> bool:
        return False


class Stand:
    """Disks below a folder, and the part of the agent that looks at them."""

    def __init__(self, base: Path, fork_server: ForkServer, tuning: ProbeSettings) -> None:
        base.mkdir(exist_ok=True)
        self.base = base
        self.notes = Notebook()
        self.disks: dict[str, Disk] = {}
        self.ids: dict[str, str] = {}
        self.recorded: dict[str, str | None] = {}
        self.node = Node(
            parse(["--node=here", *self.options()]),
            cast("Any", self.notes),
            cast("Any", NoSecrets()),
            cast("Any", Fixed(tuning)),
            Tasks(lambda: None),
        )
        self.node.pool = Pool(fork_server, self.node.take, self.node.worker_started)

    def options(self) -> list[str]:
        return [f"--disk-root={self.base}"]

    def path(self, name: str) -> Path:
        return self.base / name

    def status(self) -> dict[str, Any]:
        return {"disks": [{"name": name, "path": str(self.path(name))} for name in self.ids]}

    def insert(
        self,
        name: str,
        kind: str = "xfs",
        *,
        ours: bool = True,
        images: Path | None = None,
        served: Path | None = None,
    ) -> Disk:
        """A disk in a slot, formatted for it or blank.

        Its image lies in ``images``, or here under another name each time; ``served`` is the folder through which it is
        mounted, if that is another.
        """
        number = len(list(self.base.glob("*.img")))
        disk = Disk(images / f"{name}.img" if images else self.base / f"{name}-{number}.img", kind)
        if served is not None:
            disk.image = served / disk.image.name
        disk.mount(self.path(name))
        if name not in self.ids:
            self.ids[name] = uuid_from_entropy(b"e" * 32, name)
        if ours:
            self.brand(name, self.ids[name])
            fd = os.open(self.path(name), os.O_RDONLY)
            self.recorded[name] = filesystem.fs_uuid(fd)
            os.close(fd)
        self.disks[name] = disk
        return disk

    def brand(self, name: str, directory_id: str) -> None:
        identity = Identity("cluster", 0, name, directory_id)
        log = self.path(name) / "log"
        log.mkdir(exist_ok=True)
        (log / "meta.properties").write_text(render_meta_properties(identity))
        (self.path(name) / "spindle.json").write_text(render_identity(identity, None))

    def look(self) -> None:
        """Tell the agent what is on record."""
        self.node.sees(
            {
                NAME: {
                    "metadata": {"namespace": NAME[0], "name": NAME[1]},
                    "spec": {
                        "cluster": "demo",
                        "id": 0,
                        "node": "here",
                        "disks": [
                            {"name": name, "directoryId": directory_id, "fsUuid": self.recorded.get(name)}
                            for name, directory_id in self.ids.items()
                        ],
                    },
                    "status": self.status(),
                }
            }
        )

    def entry(self, name: str) -> dict[str, Any]:
        return next((disk for disk in self.notes.latest.get("disks", ()) if disk["name"] == name), {})

    async def until(self, what: Callable[[], bool], seconds: float = 15.0) -> float:
        """Wait; returns the seconds that it took."""
        began = time.monotonic()
        while not what():
            if time.monotonic() - began > seconds:
                raise AssertionError(f"not within {seconds} s: {self.notes.latest}")
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def until_verdict(self, name: str, verdict: str, reason: str = "", seconds: float = 15.0) -> float:
        def reached() -> bool:
            entry = self.entry(name)
            return entry.get("verdict") == verdict and entry.get("reason", "") == reason

        return await self.until(reached, seconds)


Kind = TypeVar("Kind", bound=Stand)


@contextlib.asynccontextmanager
async def standing(
    kind: Callable[[Path, ForkServer, ProbeSettings], Kind], base: Path, tuning: ProbeSettings | None = None
) -> AsyncIterator[Kind]:
    fork_server = ForkServer.start()
    made = kind(base, fork_server, tuning or ProbeSettings())
    clock = asyncio.create_task(made.node.run())
    try:
        yield made
    finally:
        clock.cancel()
        for disk in made.disks.values():
            if disk.at is not None:
                with contextlib.suppress(RuntimeError):
                    disk.thaw()
        made.node.sees({})
        made.node.pool.close()
        fork_server.channel.close()
        await asyncio.sleep(0.3)
        unmount_all_below(base)


def stand(base: Path, tuning: ProbeSettings | None = None) -> AbstractAsyncContextManager[Stand]:
    return standing(Stand, base, tuning)

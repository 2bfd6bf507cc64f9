"""The benchmark of the agent: the CPU time and memory that all of its processes together take beside a real broker.

    python -m bench.agent [--disks 12] [--replicas 4000] [--seconds 120] [--warm 60] [--python PATH ...]

A broker of Kafka on loop-mounted disks holds empty replicas; the agent watches it, first without scrubbing, then with scrubbing and nothing
due. Nothing else happens in that time. The API server is a stand-in. CPU time is that of all processes of the agent over the seconds given, after
a pause for the start; memory is their proportional set size (PSS) at the end. ``--python`` names the interpreter of another installation of
Spindle; each one given is measured against the same broker, one after the other.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from rich.console import Console
from rich.table import Table

from bench.scrub import children, cpu
from e2e.cluster.apiserver import free_ports
from e2e.cluster.cleanup import loop_devices, remove_free_loops
from e2e.cluster.debian import ensure_programs
from spindle.api import names
from spindle_operator import ca
from tests.kafka.certs import Ca
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

_NODE: Final = "node1"
_NAMESPACE: Final = "test"
_AGENTS: Final = "agents"
_BROKER: Final = "demo-broker-0"
_TOPICS: Final = 10
_BOOKMARK: Final = 30.0  # seconds between two bookmarks of a watch
_LOOK: Final = 0.1  # seconds between two looks for something to tell to a watch
_START: Final = 60.0
_SCRUBBED: Final = 150.0  # the agent reports such figures once a minute
_DONE: Final = 100  # percent of what there is to scrub


@dataclass
class Api:
    """A stand-in for the API server: one KafkaBroker and its KafkaCluster, the agent's Lease and its certificate."""

    authority: Ca
    cluster_id: str
    broker: dict[str, Any]
    version: int = 1
    observed: dict[str, Any] = field(default_factory=dict)
    certificates: dict[str, str] = field(default_factory=dict)
    closing: bool = False

    def scrubs(self, *, on: bool) -> None:
        """Turn scrubbing on or off, as the operator would in the KafkaBroker."""
        self.broker["spec"].pop("scrub", None)
        if on:
            self.broker["spec"]["scrub"] = {"everyDays": 30}
        self.version += 1

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request of the agent."""
        path = request.path
        if request.method == "PATCH":
            return self._apply(path, await request.json())
        if path.endswith("/kafkabrokers"):
            return await self._watch(request) if "watch" in request.query else self._list()
        if "/kafkaclusters/" in path:
            return web.json_response({"spec": {}, "status": {"clusterId": self.cluster_id}})
        if "/configmaps/" in path and self.certificates:
            return web.json_response({"data": self.certificates})
        return web.json_response({"kind": "Status", "reason": "NotFound", "message": path}, status=404)

    def _list(self) -> web.Response:
        return web.json_response(
            {"metadata": {"resourceVersion": str(self.version)}, "items": [self._object()]}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        told = int(request.query["resourceVersion"])
        bookmarked = time.monotonic()
        while not self.closing:
            if self.version > told:
                told = self.version
                await _send(response, {"type": "MODIFIED", "object": self._object()})
            elif time.monotonic() - bookmarked > _BOOKMARK:
                bookmarked = time.monotonic()
                mark = {"metadata": {"resourceVersion": str(told)}}
                await _send(response, {"type": "BOOKMARK", "object": mark})
            await asyncio.sleep(_LOOK)
        return response

    def _apply(self, path: str, body: dict[str, Any]) -> web.Response:
        if "/leases/" in path and not self.certificates:
            request = body["metadata"]["annotations"][names.ANN_REQUEST].encode()
            pem = self.authority.pem
            granted = ca.grant(pem, request, names.agent_principal(_NODE), 7)
            self.certificates = {names.AGENT_AUTHORITIES: pem.cert.decode(), _NODE: granted.decode()}
        if path.endswith("/status"):
            self.observed = body["status"]["observed"]
            self.version += 1  # the agent sees its own writes, too
            return web.json_response(self._object())
        return web.json_response(body)

    def _object(self) -> dict[str, Any]:
        meta = {**self.broker["metadata"], "resourceVersion": str(self.version)}
        status = {**self.broker["status"], "observed": self.observed}
        return {**self.broker, "metadata": meta, "status": status}


async def _send(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


@contextlib.contextmanager
def served(api: Api) -> Iterator[str]:
    """Serve the stand-in from a thread; its URL."""
    (port,) = free_ports(1)
    api.closing = False
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def serve() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", api.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        ready.set()
        return runner

    def run() -> None:
        start = loop.create_task(serve())
        loop.run_forever()
        loop.run_until_complete(start.result().cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        api.closing = True
        time.sleep(5 * _LOOK)  # noqa: TID251 - watches end
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextlib.contextmanager
def agent(python: str, node: Node, url: str, folder: Path) -> Iterator[int]:
    """Run an agent; its process id."""
    (port,) = free_ports(1)
    with (folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(python, "-m", "spindle_agent.main"),
                f"--node={_NODE}",
                f"--own-namespace={_AGENTS}",
                f"--namespace={_NAMESPACE}",
                f"--disk-root={node.layout.disks_root}",
                f"--api-server={url}",
                f"--token-file={folder / 'token'}",
                f"--broker-host={node.address}",
                f"--port={port}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


@dataclass(frozen=True)
class Cost:
    """What an agent's processes take: the share of one core, and their memory in bytes; by the kind of the process."""

    core: dict[str, float]
    memory: dict[str, int]
    processes: int


def family(pid: int) -> dict[int, str]:
    """The agent's processes, each with its kind: the agent, the fork server, and the processes of disks."""
    servers = children(pid)
    return {pid: "agent", **dict.fromkeys(servers, "fork server")} | {
        worker: "disks" for server in servers for worker in children(server)
    }


def cost(pid: int, seconds: float) -> Cost:
    """Measure an agent for a while."""
    kinds = family(pid)
    began, before = time.monotonic(), {each: cpu(each) for each in kinds}
    time.sleep(seconds)  # noqa: TID251 - what is measured is that it has nothing to do
    took = time.monotonic() - began
    if family(pid) != kinds:
        raise RuntimeError("processes of the agent have ended or started in the meantime")
    core, memory = dict.fromkeys(kinds.values(), 0.0), dict.fromkeys(kinds.values(), 0)
    for each, kind in kinds.items():
        core[kind] += (cpu(each) - before[each]) / took
        memory[kind] += pss(each)
    return Cost(core, memory, len(kinds))


def pss(pid: int) -> int:
    """Bytes of memory of a process; of what several share, its part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def measure(python: str, api: Api, node: Node, folder: Path, warm: float, seconds: float) -> list[Cost]:
    """The cost of one installation's agent, without scrubbing and with it."""
    api.observed, api.certificates = {}, {}
    api.scrubs(on=False)
    count = len(node.slots)
    found = []
    with served(api) as url, agent(python, node, url, folder) as pid:
        wait_for("all disks are well", lambda: _well(api) == count, _START)
        for scrub in (False, True):
            api.scrubs(on=scrub)
            if scrub:
                wait_for("nothing is left to scrub", lambda: _scrubbed(api) == count, _SCRUBBED)
            time.sleep(warm)  # noqa: TID251 - its start is not to be measured
            found.append(cost(pid, seconds))
    return found


def _well(api: Api) -> int:
    return sum(disk["verdict"] == "Healthy" for disk in api.observed.get("disks", ()))


def _scrubbed(api: Api) -> int:
    return sum(disk.get("scrub", {}).get("percent") == _DONE for disk in api.observed.get("disks", ()))


def kafka_broker(node: Node) -> dict[str, Any]:
    """The KafkaBroker of a node of the test cluster."""
    disks = [{"name": name, "directoryId": slot.directory_id} for name, slot in node.slots.items()]
    paths = [
        {"name": name, "path": str(node.mount(name)), "logDir": node.log_dir(name)} for name in node.slots
    ]
    return {
        "metadata": {"namespace": _NAMESPACE, "name": _BROKER, "uid": "uid"},
        "spec": {"cluster": "demo", "id": 0, "pool": "main", "node": _NODE, "disks": disks},
        "status": {"disks": paths},
    }


def show(console: Console, python: str, costs: list[Cost]) -> None:
    """Print one installation's table."""
    table = Table("", "kind", "of a core", "memory", title=python)
    for scrubbing, found in zip(("without scrubbing", "scrubbing, nothing due"), costs, strict=True):
        for kind in found.core:
            table.add_row(scrubbing, kind, f"{found.core[kind]:.2%}", f"{found.memory[kind] / 2**20:.1f} MiB")
        core, memory = sum(found.core.values()), sum(found.memory.values())
        table.add_row(
            scrubbing, f"all {found.processes}", f"{core:.2%}", f"{memory / 2**20:.1f} MiB", end_section=True
        )
    console.print(table)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="bench.agent")
    parser.add_argument("--disks", type=int, default=12)
    parser.add_argument("--replicas", type=int, default=4000, help="on all disks together")
    parser.add_argument("--seconds", type=float, default=120, help="of each measurement")
    parser.add_argument("--warm", type=float, default=60, help="seconds before each measurement")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters of installations")
    args = parser.parse_args()
    ensure_programs("java", "mkfs.xfs")
    loops = set(loop_devices())
    console = Console()
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as name:
        cluster = Cluster(Path(name) / "kafka", brokers=1, disks=args.disks)
        try:
            cluster.up()
            cluster.let_agent()
            for number in range(_TOPICS):
                share = args.replicas // _TOPICS + (number < args.replicas % _TOPICS)
                cluster.make_topic(f"bench-of-the-agent-{number}", [[0]] * share)
            cluster.forget_admin()
            node = cluster.brokers[0]
            api = Api(cluster.ca, cluster.cluster_id, kafka_broker(node))
            (Path(name) / "token").touch()
            for python in args.python:
                costs = measure(python, api, node, Path(name), args.warm, args.seconds)
                show(console, python, costs)
        except BaseException:
            log = Path(name) / "agent.log"
            console.print(log.read_text() if log.exists() else "the agent has not started")
            raise
        finally:
            cluster.down()
            remove_free_loops(loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())

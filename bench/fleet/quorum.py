"""What the operator pays to see a real KRaft quorum, after a start, while nothing changes and after events; and what following its metadata log would cost.

Controllers are real, and so is one broker, which answers about the cluster. All other brokers are stand-ins that register, heart-beat and answer (see `bench.fleet.standins`);
topics have 1,000 replicas a broker. CPU, bytes and requests are those of the process that looks.

.venv/bin/python -m bench.fleet.quorum [BROKERS ...] [--version 4.3.1] [--controllers 1]
"""

import argparse
import asyncio
import contextlib
import json
import logging
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from kafka.net.connection import KafkaConnection

from bench.fleet.metadata_log import MetadataLog
from bench.fleet.nodes import Nodes, resident_mib
from bench.fleet.shape import DISKS, Shape, address
from bench.fleet.standins import directory
from bench.fleet.wire import Schemas, connect_active
from e2e.cluster import versions
from spindle.api import names
from spindle.model.view import KafkaView
from spindle_operator import ca
from spindle_operator.connection import Access, Connection
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.kafka_executor import KafkaExecutor

_TIMEOUT: Final = 120.0  # a busy machine may take long; the operator itself waits for 30
_VISIBLE_SECONDS: Final = 120.0
_FEW: Final = (
    100  # up to so many brokers, all say in which dirs their replicas are; of more, the one whose disk dies
)
_MB: Final = 1e6
# What the metadata log could say instead, and what only the brokers know.
_PARTS: Final = {
    "_partitions": "partitions",
    "_topic_configs": "topics' settings",
    "_with_log_dirs": "log dirs",
    "_broker_configs": "brokers' settings",
}


@dataclass
class Cost:
    """Of one observation."""

    cpu: float
    seconds: float
    received: int
    requests: int
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Counter:
    """Bytes and requests of kafka-python in this process."""

    received: int = 0
    requests: int = 0
    parts: dict[str, float] = field(default_factory=dict)

    def _timed(self, name: str) -> Any:
        """A part of the observation, which adds its CPU time; the parts follow each other."""
        call: Callable[..., Any] = getattr(KafkaClient, name)

        def timed(*args: Any) -> Any:
            began = time.process_time()
            try:
                return call(*args)
            finally:
                self.parts[name] = self.parts.get(name, 0.0) + time.process_time() - began

        return patch.object(KafkaClient, name, timed)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count from here on."""
        received: Callable[[Any, bytes], None] = KafkaConnection.data_received
        send = Connection.send

        def counted_received(connection: Any, data: bytes) -> None:
            self.received += len(data)
            received(connection, data)

        def counted_send(connection: Connection, request: Any, node: int) -> Any:
            self.requests += 1
            return send(connection, request, node)

        with (
            patch.object(KafkaConnection, "data_received", counted_received),
            patch.object(Connection, "send", counted_send),
            contextlib.ExitStack() as parts,
        ):
            for name in _PARTS:
                parts.enter_context(self._timed(name))
            yield


class Rig:
    """A Kafka of this many brokers."""

    def __init__(
        self, shape: Shape, nodes: Nodes, child: "subprocess.Popen[str]", hosts: dict[int, str]
    ) -> None:
        self.shape, self.nodes, self._child, self._hosts = shape, nodes, child, hosts

    @property
    def access(self) -> Access:
        """How the operator reaches it."""
        return Access(
            self._hosts,
            *((self.nodes.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")),
        )

    def standins_mib(self) -> int:
        """Resident memory of the stand-ins' process."""
        return resident_mib(self._child.pid)

    def expect(self, word: str) -> float:
        """Wait for a line of the stand-ins; its seconds."""
        if self._child.stdout is None:
            raise RuntimeError("no output")
        line = self._child.stdout.readline().split()
        self.nodes.check()
        if not line or line[0] != word:
            raise RuntimeError(f"the stand-ins did not get to {word!r}: {line}")
        return float(line[1])

    def order(self, **order: Any) -> None:
        """Have something happen, and wait until the controllers have taken it in."""
        if self._child.stdin is None:
            raise RuntimeError("no input")
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        self.expect("done")


@contextlib.contextmanager
def rig(brokers: int, version: str, controllers: int) -> Iterator[Rig]:
    """Everything started, all brokers unfenced, all topics created."""
    shape = Shape(brokers)
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, contextlib.ExitStack() as stack:
        base = Path(folder)
        nodes = Nodes(base, version, controllers, brokers, heap_mb=256 + 2 * brokers)
        stack.callback(nodes.stop)
        nodes.start()
        own = base / "standins"
        own.mkdir()
        issued = ca.issue(nodes.ca.pem, names.PRINCIPAL_NODE, [address(node) for node in shape.ids])
        for name, content in issued.items():
            (own / name).write_bytes(content)
        assigned = brokers if brokers <= _FEW else 1
        command = [
            *(sys.executable, "-m", "bench.fleet.standins", f"--brokers={brokers}", f"--folder={own}"),
            *(f"--cluster={nodes.cluster_id}", f"--version={version}", f"--assigned={assigned}"),
            *("--real", str(brokers), nodes.broker_host, "--controllers", *nodes.hosts.values()),
        ]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(child.wait)
        stack.callback(child.kill)
        hosts = {brokers: nodes.broker_host} | {node: address(node) for node in shape.ids}
        made = Rig(shape, nodes, child, hosts)
        took = {word: made.expect(word) for word in ("controllers", "brokers", "topics", "dirs")}
        _say(
            f"{brokers} brokers, {shape.partitions} partitions, {DISKS} disks a broker, Kafka {version}, {controllers} controller(s), load {os.getloadavg()[0]:.0f}: "
            + ", ".join(f"{word} {seconds:.0f} s" for word, seconds in took.items())
        )
        yield made


class Looks:
    """Both ways of looking at one Kafka."""

    def __init__(self, of: Rig, log: MetadataLog, counter: Counter) -> None:
        self._rig, self._counter = of, counter
        self._executor = KafkaExecutor("bench/fleet", _TIMEOUT)
        self.log = log
        self.view = KafkaView()

    async def polled(self) -> Cost:
        """The operator's own observation.

        Raises:
            RuntimeError: it does not have everything.
        """
        received, requests = self._counter.received, self._counter.requests
        self._counter.parts = {}
        cpu, began = time.process_time(), time.monotonic()
        self.view, _ = await self._executor.look(self._rig.access)
        cost = Cost(
            time.process_time() - cpu,
            time.monotonic() - began,
            self._counter.received - received,
            self._counter.requests - requests,
            self._counter.parts,
        )
        if self.view.error or self.view.partitions is None or not self.view.brokers:
            raise RuntimeError(f"the observation failed: {self.view.error}")
        return cost

    async def followed(self) -> Cost:
        """What is new in the metadata log."""
        wire = self.log.wire
        received, requests = wire.received, wire.requests
        cpu, began = time.process_time(), time.monotonic()
        await self.log.read()
        return Cost(
            time.process_time() - cpu,
            time.monotonic() - began,
            wire.received - received,
            wire.requests - requests,
        )

    def differences(self) -> int:
        """Partitions and brokers of which the log says something else than Kafka's answers."""
        image = self.log.image
        logged = {
            (image.topics[topic], index): (one.leader, one.replicas, set(one.isr), set(one.elr))
            for (topic, index), one in image.partitions.items()
        }
        seen = {
            (one.topic, one.index): (
                -1 if one.leader is None else one.leader,
                list(one.replicas),
                set(one.isr),
                set(one.elr or ()),
            )
            for one in self.view.partitions or ()
        }
        fenced = {node: broker.fenced for node, broker in (self.view.brokers or {}).items()}
        different = {key for key in logged.keys() | seen.keys() if logged.get(key) != seen.get(key)}
        return len(different) + sum(image.fenced.get(node) != told for node, told in fenced.items())

    async def close(self) -> None:
        """Disconnect both."""
        await self._executor.shutdown()
        await self.log.wire.close()


@dataclass
class Found:
    """Costs by phase, each of one size."""

    polled: dict[str, Cost] = field(default_factory=dict)
    followed: dict[str, Cost] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)


async def measure(of: Rig, schemas: Schemas) -> Found:
    """All phases on one Kafka."""
    found, counter = Found(), Counter()
    wire, epoch = await connect_active(schemas, of.nodes.hosts, of.access.context())
    looks = Looks(of, MetadataLog(wire, epoch, of.nodes.cluster_id), counter)
    try:
        with counter.counting():
            for phase in ("first look", "nothing changed"):
                found.polled[phase] = await looks.polled()
                found.followed[phase] = await looks.followed()
            found.polled["nothing changed"] = await looks.polled()
            _same(looks)
            ids = of.shape.ids
            rack = [node for node in ids if node % 3 == 1]
            events: list[tuple[str, dict[str, Any], Callable[[KafkaView], bool]]] = [
                ("a broker is fenced", {"fence": [ids[-1]]}, lambda view: _fenced(view, [ids[-1]])),
                ("a disk dies", {"offline": [0, 0]}, lambda view: _offline(view, 0)),
                ("a rack is fenced", {"fence": rack}, lambda view: _fenced(view, rack)),
            ]
            for phase, order, visible in events:
                began = time.monotonic()
                of.order(**order)
                costs = [await looks.polled()]
                while not visible(looks.view):
                    if time.monotonic() - began > _VISIBLE_SECONDS:
                        raise RuntimeError(f"{phase}: the operator does not see it")
                    costs.append(await looks.polled())
                # The broker that is asked may have learnt of it in the midst of a look.
                found.polled[phase] = max(costs, key=lambda cost: cost.cpu)
                found.until[phase] = time.monotonic() - began
                found.followed[phase] = await looks.followed()
                _same(looks)
            if directory(0, 0) in looks.log.image.directories[0]:
                raise RuntimeError("the log does not say that the disk has died")
    finally:
        await looks.close()
    return found


def _same(looks: Looks) -> None:
    different = looks.differences()
    if different:
        raise RuntimeError(f"the metadata log and the brokers' answers differ in {different} places")


def _fenced(view: KafkaView, nodes: list[int]) -> bool:
    return all((view.brokers or {})[node].fenced for node in nodes)


def _offline(view: KafkaView, node: int) -> bool:
    dirs = (view.brokers or {})[node].log_dirs or ()
    leads = any(p.leader == node for p in view.partitions or ())
    return any(each.error for each in dirs) and leads


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _exponent(values: dict[int, float]) -> str:
    """Of the growth between the smallest and the largest size."""
    low, high = min(values), max(values)
    if low == high or values[low] <= 0 or values[high] <= 0:
        return ""
    return f"{math.log(values[high] / values[low]) / math.log(high / low):.2f}"


def _cells(cost: Cost) -> str:
    return f"{cost.cpu:.3f}, {cost.seconds:.2f}, {cost.received / _MB:.3f}, {cost.requests}"


def _parts(cost: Cost) -> str:
    """CPU seconds of what an observation consists of."""
    return ", ".join(f"{text} {cost.parts[name]:.3f}" for name, text in _PARTS.items() if name in cost.parts)


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _table(kind: str, found: dict[int, dict[str, Cost]]) -> None:
    sizes = sorted(found)
    _say(
        f"\n{kind}\n| phase | "
        + " | ".join(f"{size} brokers: CPU s, s, MB, requests" for size in sizes)
        + " | exponent of CPU |"
    )
    for phase in found[sizes[0]]:
        cells = [_cells(found[size][phase]) for size in sizes]
        exponent = _exponent({size: found[size][phase].cpu for size in sizes})
        _say(f"| {phase} | " + " | ".join(cells) + f" | {exponent} |")


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--version", default=versions.KAFKA, choices=versions.KAFKA_RELEASES)
    parser.add_argument("--controllers", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.ERROR)
    schemas = Schemas(options.version)
    found: dict[int, Found] = {}
    for brokers in options.brokers:
        with rig(brokers, options.version, options.controllers) as of:
            found[brokers] = asyncio.run(measure(of, schemas))
            memory = ", ".join(f"{node}: {mib}" for node, mib in of.nodes.memory_mib().items())
            _say(
                f"  memory of Kafka's processes in MiB: {memory}; of this process {_peak_mib()} at the peak, of the stand-ins {of.standins_mib()}"
            )
            for phase, cost in found[brokers].polled.items():
                _say(
                    f"  {phase}: looked {_cells(cost)} ({_parts(cost)}); log {_cells(found[brokers].followed[phase])}"
                )
    _table("The operator's observation", {size: each.polled for size, each in found.items()})
    _table("The metadata log", {size: each.followed for size, each in found.items()})
    until = {size: each.until for size, each in found.items()}
    _say("\nseconds from an event to the view that has it: " + json.dumps(until))


if __name__ == "__main__":
    main()

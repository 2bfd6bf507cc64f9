"""A cluster on log dirs as Strimzi lays them out: taken over without a format, with every record, its quorum made dynamic; and given back."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.errors import KafkaError

from e2e.cluster import versions
from e2e.cluster.build import ensure_kafka_libs
from spindle.api import names
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK
from spindle.model.node_inputs import VoterInputs
from spindle.takeover import volumes
from spindle.takeover.volumes import VolumeOrder, VolumePlace
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka import archive
from tests.kafka.cluster import SMALL, Cluster
from tests.kafka.disks import Disk
from tests.kafka.node import Slot, wait_for

BROKERS = (0, 1)
RECORDS = 200
KRAFT = "kraft.version"


@dataclass
class StrimziCluster:
    """Kafka as Strimzi runs it: static voters, ``data-N/kafka-log<id>``, the metadata log of every node on its data-0."""

    base: Path
    subnet: str
    cluster_id: str
    controllers: tuple[int, ...]
    disks: dict[tuple[int, int], Disk] = field(default_factory=dict)
    running: "dict[int, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def volumes_of(self, node: int) -> list[int]:
        return [0] if node in self.controllers else [0, 1]

    def mount(self, node: int, volume: int) -> Path:
        return self.base / f"{node}" / f"data-{volume}"

    def address(self, node: int) -> str:
        return f"{self.subnet}.{20 + node}"

    def make(self) -> None:
        for node in (*BROKERS, *self.controllers):
            for volume in self.volumes_of(node):
                disk = Disk(self.base / f"image-{node}-{volume}")
                disk.mount(self.mount(node, volume))
                self.disks[node, volume] = disk

    def properties(self, node: int) -> Path:
        own = {
            **SMALL,
            "node.id": str(node),
            "process.roles": "controller" if node in self.controllers else "broker",
            "controller.listener.names": "CONTROLPLANE",
            "listener.security.protocol.map": "CONTROLPLANE:PLAINTEXT,REPLICATION:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
            "controller.quorum.voters": ",".join(f"{c}@{self.address(c)}:9090" for c in self.controllers),
            "log.dirs": ",".join(
                str(self.mount(node, v) / f"kafka-log{node}") for v in self.volumes_of(node)
            ),
            "metadata.log.dir": str(self.mount(node, 0) / f"kafka-log{node}"),
            "offsets.topic.replication.factor": "2",
            "min.insync.replicas": "1",
            "metadata.max.idle.interval.ms": "200",
            "log.cleaner.dedupe.buffer.size": "2097152",  # the default is more than its heap here
            # So that there is a snapshot, and the log does not begin at its beginning.
            "metadata.log.max.record.bytes.between.snapshots": "2000",
        }
        if node in self.controllers:
            own["listeners"] = f"CONTROLPLANE://{self.address(node)}:9090"
        else:
            own["listeners"] = f"REPLICATION://{self.address(node)}:9091"
        path = self.base / f"strimzi-{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
        return path

    def java(self, *arguments: str) -> list[str]:
        libs = ensure_kafka_libs(versions.KAFKA)
        jvm = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", archive.options(versions.KAFKA)]
        return ["setpriv", "--pdeathsig", "KILL", "--", "java", *jvm, "-cp", f"{libs}/*", *arguments]

    def start(self) -> None:
        for node in (*self.controllers, *BROKERS):
            file = str(self.properties(node))
            tool = (
                "kafka.tools.StorageTool",
                "format",
                f"-t={self.cluster_id}",
                "-r=4.3",
                f"-c={file}",
                "-g",
            )
            subprocess.run(self.java(*tool), check=True, capture_output=True)
            with (self.base / f"strimzi-{node}.log").open("ab") as log:
                self.running[node] = subprocess.Popen(self.java("kafka.Kafka", file), stdout=log, stderr=log)

    def stop(self) -> None:
        for node in (*BROKERS, *self.controllers):
            process = self.running.pop(node, None)
            if process is not None:
                process.terminate()
                process.wait(60)

    def answers(self) -> bool:
        """Whether each broker takes connections; raises if a process has ended."""
        for node, process in self.running.items():
            log = (self.base / f"strimzi-{node}.log").read_text(errors="replace")
            assert process.poll() is None, f"node {node} ended:\n{log[-3000:]}"
        for node in BROKERS:
            try:
                socket.create_connection((self.address(node), 9091), 2).close()
            except OSError:
                return False
        return True

    def bootstrap(self) -> list[str]:
        return [f"{self.address(node)}:9091" for node in BROKERS]

    def order(self, node: int, *, undo: bool = False) -> VolumeOrder:
        controller = node in self.controllers
        as_node = names.controller_id(self.controllers.index(node)) if controller else node
        places = (
            VolumePlace(str(self.mount(node, v)), f"kafka-log{node}", node, as_node, controller)
            for v in self.volumes_of(node)
        )
        return VolumeOrder(self.cluster_id, tuple(places), undo)


def carry_out(order: VolumeOrder, folder: Path) -> dict[str, Any]:
    """As its pod does it."""
    message = folder / "termination"
    done = subprocess.run(
        [sys.executable, "-m", "spindle_agent.preflight.main", "takeover"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            volumes.ENV_ORDER: order.text(),
            "SPINDLE_TERMINATION_LOG": str(message),
        },
        capture_output=True,
        check=False,
    )
    told: dict[str, Any] = json.loads(message.read_text())
    assert bool(done.returncode) == ("refused" in told)
    return told


# Their ids go on from those of the pool before.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param((2,), id="one controller"),
        pytest.param((2, 3, 4), id="three controllers", marks=pytest.mark.slow),
    ],
)
def controllers(request: pytest.FixtureRequest) -> tuple[int, ...]:
    found: tuple[int, ...] = request.param
    return found


@pytest.fixture(scope="module")
def ours(make_cluster: Callable[..., Cluster], controllers: tuple[int, ...]) -> Cluster:
    return make_cluster(brokers=0, disks=0, controllers=0)


@pytest.fixture(scope="module")
def theirs(ours: Cluster, controllers: tuple[int, ...]) -> Iterator[StrimziCluster]:
    cluster_id = uuid_from_entropy(os.urandom(32), "strimzi")
    made = StrimziCluster(ours.base / "theirs", ours.subnet, cluster_id, controllers)
    made.base.mkdir()
    made.make()
    made.start()
    try:
        wait_for("a topic", lambda: make_topic(made), 120, pause=1)
        produce(made)
        yield made
    finally:
        made.stop()


def make_topic(theirs: StrimziCluster) -> bool:
    if not theirs.answers():
        return False
    admin = KafkaAdminClient(bootstrap_servers=theirs.bootstrap())
    try:
        admin.create_topics(
            [NewTopic("orders", replica_assignments={0: [0, 1], 1: [1, 0], 2: [0, 1], 3: [1, 0]})]
        )
    except KafkaError:
        return False
    finally:
        admin.close()
    return True


def produce(theirs: StrimziCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=theirs.bootstrap(), acks="all", retries=5)
    for sent in [producer.send("orders", b"%d" % n, partition=n % 4) for n in range(RECORDS)]:
        sent.get(timeout=30)
    producer.close(timeout=5)


def read(**client: Any) -> set[int]:
    consumer = KafkaConsumer(**client, consumer_timeout_ms=5000)
    try:
        consumer.assign([TopicPartition("orders", n) for n in range(4)])
        consumer.seek_to_beginning()
        return {int(record.value) for record in consumer}
    finally:
        consumer.close()


def files(theirs: StrimziCluster) -> set[str]:
    """Every file that is not written anew at each start and stop."""
    changing = (".lock", "checkpoint", "cleanshutdown", "quorum-state", ".snapshot", "__cluster_metadata")
    return {
        str(path.relative_to(theirs.base))
        for disk in theirs.disks.values()
        for path in (disk.at or Path()).rglob("*")
        if path.is_file() and not any(part in str(path) for part in changing)
    }


def test_nothing_is_touched_while_kafka_runs(theirs: StrimziCluster, tmp_path: Path) -> None:
    before = files(theirs)
    told = carry_out(theirs.order(0), tmp_path)
    assert "in use by a process" in told["refused"]
    assert files(theirs) == before


@pytest.mark.slow
def test_it_goes_there_and_back(theirs: StrimziCluster, tmp_path: Path) -> None:
    theirs.stop()
    before = files(theirs)
    for node in (*BROKERS, *theirs.controllers):
        assert all(carry_out(theirs.order(node), tmp_path)["directories"])
        assert carry_out(theirs.order(node), tmp_path) == carry_out(theirs.order(node), tmp_path)
    assert files(theirs) != before
    for node in (*BROKERS, *theirs.controllers):
        carry_out(theirs.order(node, undo=True), tmp_path)
    assert files(theirs) == before
    theirs.start()
    wait_for("they answer", theirs.answers, 120, pause=1)
    wait_for("every record", lambda: read(bootstrap_servers=theirs.bootstrap()) == set(range(RECORDS)), 90)


def test_ours_finds_every_record_and_its_quorum_becomes_dynamic(
    theirs: StrimziCluster, ours: Cluster, tmp_path: Path
) -> None:
    theirs.stop()
    found = {
        node: carry_out(theirs.order(node), tmp_path)["directories"]
        for node in (*BROKERS, *theirs.controllers)
    }
    adopt(theirs, ours, found)
    for node in ours.nodes.values():
        assert all(seen["state"] == "ours" for seen in node.inspect().values())
        node.preflight()  # no clearance was given: nothing can be formatted
        node.start()
    ours.wait_ready()
    client = {"bootstrap_servers": ours.bootstrap(), **ours.ssl()}
    assert read(**client) == set(range(RECORDS))
    view = ours.view()
    assert view.cluster_id == theirs.cluster_id
    assert view.quorum is not None
    assert {voter.id for voter in view.quorum.voters} == set(ours.controllers)
    assert {voter.directory_id for voter in view.quorum.voters} == {"A" * 22}
    held = [len(broker.log_dirs or ()) for broker in (view.brokers or {}).values()]
    assert held == [2, 2]

    raise_kraft(ours)
    wait_for("voters on record", lambda: all_voters_known(ours))
    # One after the other, with nothing of the quorum in their configuration any more.
    for node in ours.nodes.values():
        node.static_quorum = False
        node.stop()
        ours.forget_admin()
        node.new_pod()
        node.preflight()
        node.start()
        node.wait_ready(120)
    client = {"bootstrap_servers": ours.bootstrap(), **ours.ssl()}
    assert read(**client) == set(range(RECORDS))
    ours.produce("orders", 0, [b"%d" % RECORDS])
    assert RECORDS in read(**client)


def adopt(theirs: StrimziCluster, ours: Cluster, found: dict[int, list[str]]) -> None:
    """The nodes as the operator makes them from what the claims then carry."""
    ours.cluster_id = theirs.cluster_id
    ours.inputs = replace(ours.inputs, cluster_id=theirs.cluster_id)
    ours.controllers = {
        names.controller_id(index): f"{ours.subnet}.{100 + index}" for index in range(len(theirs.controllers))
    }
    ours.voters = tuple(
        VoterInputs(node_id=names.controller_id(index), directory_id=found[node][0])
        for index, node in enumerate(theirs.controllers)
    )
    ours.broker_ids = list(BROKERS)
    for disk in theirs.disks.values():
        disk.unmount()
    for index, node_id in enumerate(theirs.controllers):
        slots = {METADATA_DISK: Slot(found[node_id][0], theirs.disks[node_id, 0])}
        ours.add_with(names.controller_id(index), slots)
    for node_id in BROKERS:
        slots = {names.disk_name(v): Slot(found[node_id][v], theirs.disks[node_id, v]) for v in (0, 1)}
        ours.add_with(node_id, slots)
    for node in ours.nodes.values():
        node.static_quorum = True
        node.new_pod()


def link(ours: Cluster) -> KafkaClient:
    pems = ((ours.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    access = Access({node.node_id: node.address for node in ours.brokers}, *pems)
    return KafkaClient("test/demo", access.hosts, names.PORT_REPLICATION, access.context(), 10)


def raise_kraft(ours: Cluster) -> None:
    made = link(ours)
    try:
        kafka_commands.raise_features(made, {KRAFT: 1})
    finally:
        made.close()


def all_voters_known(ours: Cluster) -> bool:
    view = ours.view()
    known = {voter.id: voter.directory_id for voter in view.quorum.voters} if view.quorum else {}
    expected = {voter.node_id: voter.directory_id for voter in ours.voters}
    return (view.features or {}).get(KRAFT) == 1 and known == expected

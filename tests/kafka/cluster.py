"""A whole cluster of Kafka processes on loopback addresses and loop-mounted disks."""

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.errors import KafkaError

from e2e.cluster import versions
from spindle.api import names
from spindle.model.agent_access import RIGHTS
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK
from spindle.model.node_inputs import ClusterInputs, VoterInputs
from spindle.model.quorum_sizes import SIZES
from spindle.model.view import KafkaView, Partition
from spindle_operator import users
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.certs import Ca
from tests.kafka.disks import SIZE, Disk, images, unmount_all_below
from tests.kafka.node import Node, Slot, wait_for

# Small enough for many JVMs on a small machine, and quick to notice that one is gone.
SMALL = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "log.dir.failure.timeout.ms": "5000",
    "controlled.shutdown.retry.backoff.ms": "500",
}


class Cluster:
    """Controllers and brokers, born through clearances."""

    def __init__(
        self,
        base: Path,
        *,
        brokers: int,
        disks: int,
        controllers: int = 1,
        config: dict[str, str] | None = None,
        disk_size: int = SIZE,
        version: str = versions.KAFKA,
    ) -> None:
        self.base = base
        self.disk_size = disk_size
        base.mkdir(parents=True, exist_ok=True)
        self.images = images(base)
        self.ca = Ca()
        self.entropy = random.randbytes(32)
        self.subnet = f"127.{random.randrange(64, 250)}.{random.randrange(1, 250)}"
        self.cluster_id = uuid_from_entropy(self.entropy, "cluster")
        self.inputs = ClusterInputs(
            name="demo",
            namespace="test",
            uid="uid",
            cluster_id=self.cluster_id,
            version=version,
            spindle_image="none",
        )
        self.config = {**SMALL, **(config or {})}
        # Of all that there may be: every node's configuration names them.
        self.controllers = {
            names.controller_id(index): f"{self.subnet}.{100 + index}" for index in range(max(SIZES))
        }
        self.voters = tuple(
            VoterInputs(node_id=controller, directory_id=self.directory_id(controller, METADATA_DISK))
            for controller in list(self.controllers)[:controllers]
        )
        self.disks: list[Disk] = []
        self.nodes: dict[int, Node] = {}
        self.broker_ids = list(range(brokers))
        for voter in self.voters:
            self.add(voter.node_id, [METADATA_DISK])
        for broker in self.broker_ids:
            self.add(broker, [names.disk_name(index) for index in range(disks)])
        self.operator = self.ca.client(base / "operator", names.PRINCIPAL_OPERATOR)
        self._admin: Any = None

    def directory_id(self, node_id: int, disk: str, generation: int = 0) -> str:
        return uuid_from_entropy(self.entropy, str(node_id), disk, str(generation))

    def new_disk(self) -> Disk:
        disk = Disk(self.images / f"image-{len(self.disks)}", size=self.disk_size)
        self.disks.append(disk)
        return disk

    def add(self, node_id: int, disks: Iterable[str]) -> Node:
        slots = {name: Slot(self.directory_id(node_id, name), self.new_disk()) for name in disks}
        return self.add_with(node_id, slots)

    def add_with(self, node_id: int, slots: dict[str, Slot]) -> Node:
        address = self.controllers.get(node_id, f"{self.subnet}.{node_id + 1}")
        node = Node(
            base=self.base / str(node_id),
            cluster=self.inputs,
            node_id=node_id,
            address=address,
            controllers=self.controllers,
            voters=self.voters,
            brokers=len(self.broker_ids),
            slots=slots,
            rack=None if node_id in self.controllers else f"zone-{node_id}",
            extra=self.config,
        )
        self.ca.node(Path(node.layout.tls_dir), names.PRINCIPAL_NODE, address)
        self.nodes[node_id] = node
        return node

    @property
    def controller(self) -> Node:
        return self.nodes[names.controller_id(0)]

    @property
    def brokers(self) -> list[Node]:
        return [self.nodes[broker] for broker in self.broker_ids]

    def up(self) -> None:
        for node in self.nodes.values():
            node.up()
        self.wait_ready()

    def wait_ready(self) -> None:
        for node in self.nodes.values():
            node.wait_ready()

    def down(self) -> None:
        self.forget_admin()
        for node in self.nodes.values():
            if node.kafka is not None:
                node.kill()
        unmount_all_below(self.base)
        for folder in (self.base, self.images):
            shutil.rmtree(folder, ignore_errors=True)

    # -- clients -------------------------------------------------------------------------------------------------

    def bootstrap(self, port: int = names.PORT_REPLICATION) -> list[str]:
        return [f"{node.address}:{port}" for node in self.brokers if node.kafka is not None]

    def ssl(self, folder: Path | None = None) -> dict[str, Any]:
        folder = folder or self.operator
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(folder / "ca.crt"),
            "ssl_certfile": str(folder / "tls.crt"),
            "ssl_keyfile": str(folder / "tls.key"),
            "ssl_check_hostname": True,
        }

    def admin(self) -> Any:
        """The operator's admin client; made anew after brokers came or went."""
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap(), **self.ssl())
        return self._admin

    def forget_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def link(self) -> KafkaClient:
        """The operator's own connection; to be closed."""
        hosts = {node.node_id: node.address for node in self.brokers if node.kafka is not None}
        folder = self.operator
        access = Access(
            hosts,
            *((folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")),
        )
        return KafkaClient("test/demo", hosts, names.PORT_REPLICATION, access.context(), 10)

    def let_agent(self) -> Path:
        """Give an agent what the operator gives it; the folder with its key and its certificate."""
        user, folder = names.agent_principal("node1"), self.base / "agent"
        self.ca.agent(folder, "node1")
        link = self.link()
        try:
            users.alter(link, user, RIGHTS, ())
            wait_for("the agent has its rights", lambda: users.agents(link).get(user) == RIGHTS)
        finally:
            link.close()
        return folder

    def view(self) -> KafkaView:
        """Kafka as the operator sees it."""
        link = self.link()
        try:
            return link.look(ask_rights=False)[0]
        finally:
            link.close()

    def log_dirs(self, broker: int) -> dict[str, dict[str, Any]]:
        """Path → what one broker says of its log dir."""
        answer = self.admin().describe_log_dirs(brokers=[broker])
        (mine,) = [entry for entry in answer if entry["broker"] == broker]
        return {entry["log_dir"]: entry for entry in mine["log_dirs"]}

    def make_topic(self, name: str, assignment: list[list[int]], **configs: str) -> None:
        self.admin().create_topics(
            [NewTopic(name, replica_assignments=dict(enumerate(assignment)), topic_configs=configs)]
        )
        wait_for(f"topic {name}", lambda: len(self.partitions(name)) == len(assignment))

    def partitions(self, topic: str) -> dict[int, Partition]:
        """As the operator sees them; empty while they can't be seen."""
        try:
            seen = self.view().partitions
        except KafkaError:  # a broker that hangs was asked first
            return {}
        return {p.index: p for p in seen or () if p.topic == topic}

    def isr(self, topic: str) -> dict[int, list[int]]:
        return {index: sorted(p.isr) for index, p in self.partitions(topic).items()}

    def end_offset(self, topic: str, partition: int) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap(), **self.ssl())
        try:
            where = TopicPartition(topic, partition)
            return int(consumer.end_offsets([where])[where])
        finally:
            consumer.close()

    def produce(self, topic: str, partition: int, values: Iterable[bytes], **options: Any) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap(), **self.ssl(), **{"acks": "all", "retries": 3} | options
        )
        try:
            for sent in [producer.send(topic, value, partition=partition) for value in values]:
                sent.get(timeout=30)
        finally:
            producer.close(timeout=5)

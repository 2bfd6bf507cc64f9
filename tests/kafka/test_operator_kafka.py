"""The operator's view of Kafka, from a real cluster over mTLS, with brokers that hang, die and come back."""

import signal
import time
from collections.abc import AsyncIterator, Callable

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from spindle.api import names
from spindle.model.actions import ElectPreferred, GrantAdmin
from spindle.model.view import KafkaView
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

TIMEOUT = 3.0

GRANT = GrantAdmin(secret="demo-admin", uid="u")  # noqa: S106 - the name of a Secret


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=3, disks=1)
    made.up()
    made.make_topic("t", [[0, 1, 2], [1, 2, 0]], **{"min.insync.replicas": "2"})
    return made


@pytest.fixture
async def gate() -> AsyncIterator[KafkaExecutor]:
    gate = KafkaExecutor("test/demo", TIMEOUT)
    yield gate
    await gate.shutdown()


def access(cluster: Cluster) -> Access:
    """All brokers, as the operator finds them by their pods: also those that hang."""
    pems = ((cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    return Access({node.node_id: node.address for node in cluster.brokers if node.kafka is not None}, *pems)


async def look(gate: KafkaExecutor, cluster: Cluster) -> tuple[KafkaView, float]:
    started = time.monotonic()
    view, _ = await gate.look(access(cluster))
    return view, time.monotonic() - started


async def test_a_whole_view(cluster: Cluster, gate: KafkaExecutor) -> None:
    view, _ = await look(gate, cluster)
    assert view.error is None
    assert view.cluster_id == cluster.cluster_id
    assert view.brokers is not None
    assert {node: (broker.rack, broker.fenced) for node, broker in view.brokers.items()} == {
        node: (f"zone-{node}", False) for node in range(3)
    }
    for node, broker in view.brokers.items():
        assert broker.log_dirs is not None
        (log_dir,) = broker.log_dirs
        assert log_dir.path == cluster.nodes[node].log_dir("disk0")
        assert log_dir.error == 0
        assert log_dir.total_bytes is not None
        assert ("t", 0) in log_dir.replicas
    assert view.partitions is not None
    first = next(partition for partition in view.partitions if partition.name == "t-0")
    assert (first.leader, first.replicas, set(first.isr), first.elr) == (0, (0, 1, 2), {0, 1, 2}, ())
    assert view.min_isr is not None
    assert view.min_isr["t"] == 2
    assert view.quorum is not None
    assert [(voter.id, voter.caught_up) for voter in view.quorum.voters] == [
        (names.FIRST_CONTROLLER_ID, True)
    ]
    assert view.quorum.voters[0].directory_id == cluster.voters[0].directory_id
    assert {observer.id for observer in view.quorum.observers} == {0, 1, 2}
    assert view.metadata_version is not None
    assert view.metadata_version >= 20


async def test_a_second_look_is_quick(cluster: Cluster, gate: KafkaExecutor) -> None:
    await look(gate, cluster)
    view, took = await look(gate, cluster)
    assert view.error is None
    print(f"a look at 3 brokers takes {took * 1000:.0f} ms")
    assert took < TIMEOUT


async def test_the_admins_rights_are_missing_until_they_are_given(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    folder = cluster.ca.client(cluster.base / "admin", names.PRINCIPAL_ADMIN)
    _, granted = await gate.look(access(cluster), ask_rights=True)
    assert granted is False
    await gate.carry_out(GRANT)
    await gate.carry_out(GRANT)

    async def known() -> bool | None:
        return (await gate.look(access(cluster), ask_rights=True))[1]

    deadline = time.monotonic() + 10
    while not await known():
        assert time.monotonic() < deadline
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap(names.PORT_CLIENT), **cluster.ssl(folder))
    try:
        admin.create_topics({"made-by-admin": {"num_partitions": 1, "replication_factor": 3}})
    finally:
        admin.close()
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap(names.PORT_CLIENT), acks="all", **cluster.ssl(folder)
    )
    producer.send("made-by-admin", b"x").get(timeout=20)
    producer.close()


async def test_a_reassignment_under_way_is_seen(cluster: Cluster, gate: KafkaExecutor) -> None:
    cluster.make_topic("moving", [[0, 1]])
    admin = cluster.admin()
    admin._controller_id = 0  # any broker passes it on; not the one that is about to stop
    assert cluster.nodes[2].kafka is not None
    cluster.nodes[2].kafka.send_signal(signal.SIGSTOP)  # so that it does not end before it is seen
    try:
        admin.alter_partition_reassignments({TopicPartition("moving", 0): [0, 2]})
        view, _ = await look(gate, cluster)
        assert view.partitions is not None
        found = next(partition for partition in view.partitions if partition.topic == "moving")
        assert (found.adding, found.removing, found.recorded_rf) == ((2,), (1,), 2)
    finally:
        cluster.nodes[2].kafka.send_signal(signal.SIGCONT)
    wait_for("the end of the move", lambda: cluster.isr("moving") == {0: [0, 2]})


async def test_one_hung_broker_costs_one_time_out_and_only_its_own_log_dirs(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    await look(gate, cluster)
    hung = cluster.nodes[1].kafka
    assert hung is not None
    hung.send_signal(signal.SIGSTOP)
    try:
        for _ in range(2):  # with the client that knew it well, and with one made while it hangs
            view, took = await look(gate, cluster)
            print(f"a look with one of 3 brokers hung takes {took:.1f} s")
            assert view.error is None
            assert took < 3 * TIMEOUT
            assert view.brokers is not None
            assert view.brokers[1].log_dirs is None
            assert view.brokers[0].log_dirs is not None
            assert view.brokers[2].log_dirs is not None
            assert view.partitions is not None
        wait_for("the controllers to fence it", lambda: 1 not in cluster.isr("t").get(0, [1]), 90)
        view, _ = await look(gate, cluster)
        assert view.brokers is not None
        assert view.brokers[1].fenced is True
    finally:
        hung.send_signal(signal.SIGCONT)
    wait_for("it to be back in sync", lambda: cluster.isr("t") == {0: [0, 1, 2], 1: [0, 1, 2]})


async def test_preferred_leaders_are_elected(cluster: Cluster, gate: KafkaExecutor) -> None:
    view, _ = await look(gate, cluster)
    assert view.partitions is not None
    moved = [partition for partition in view.partitions if partition.topic == "t"]
    await gate.carry_out(
        ElectPreferred(partitions=tuple((partition.topic, partition.index) for partition in moved))
    )
    await gate.carry_out(ElectPreferred(partitions=(("t", 0),)))
    wait_for(
        "preferred leaders", lambda: {i: p.leader for i, p in cluster.partitions("t").items()} == {0: 0, 1: 1}
    )


async def test_a_broker_that_died_is_a_new_client_and_not_an_error(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    await look(gate, cluster)
    cluster.forget_admin()
    cluster.nodes[2].kill()
    view, took = await look(gate, cluster)
    assert view.error is None
    assert took < 3 * TIMEOUT
    assert view.brokers is not None
    assert view.brokers[2].log_dirs is None
    wait_for("the ISR without it", lambda: cluster.isr("t").get(0) == [0, 1], 30)
    cluster.nodes[2].start()
    cluster.nodes[2].wait_ready()
    wait_for("it to be back in sync", lambda: cluster.isr("t") == {0: [0, 1, 2], 1: [0, 1, 2]})


async def test_without_a_quorum_brokers_metadata_is_not_believed(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    await look(gate, cluster)
    controller = cluster.controller.kafka
    assert controller is not None
    controller.send_signal(signal.SIGSTOP)
    try:
        view, took = await look(gate, cluster)
        print(f"a look without a quorum takes {took:.1f} s")
        assert view.partitions is None
        assert view.quorum is None
        assert took < 5 * TIMEOUT
    finally:
        controller.send_signal(signal.SIGCONT)
    wait_for("the quorum", lambda: cluster.partitions("t"))


async def test_another_ca_is_not_let_in(cluster: Cluster, gate: KafkaExecutor) -> None:
    good = access(cluster)
    stranger = type(cluster.ca)()
    folder = stranger.client(cluster.base / "stranger", names.PRINCIPAL_OPERATOR)
    pems = [(folder / name).read_bytes() for name in ("tls.crt", "tls.key")]
    view, _ = await gate.look(Access(good.hosts, good.authority, *pems))
    assert view.error is not None
    assert view.brokers is None
    with pytest.raises((KafkaError, OSError)):
        await gate.carry_out(GRANT)

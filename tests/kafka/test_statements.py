"""What the simulated Kafka states about Kafka, and no other test here tries, on real processes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import NewTopic  # type: ignore[attr-defined]
from kafka.errors import InvalidReplicationAssignmentError, KafkaError
from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest, ElectionType

from spindle.model.node_inputs import ACTIVE, PLACEHOLDER
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

pytestmark = pytest.mark.slow

INVALID_TOPIC, UNKNOWN = 17, 3  # the second one notes the dir all the same
ELSEWHERE, STAYS = 0, 1  # brokers: the one that keeps running, and the one that is stopped and changed


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=2, disks=3)
    made.up()
    return made


def alter(cluster: Cluster, broker: int, path: str, *keys: tuple[str, int]) -> dict[tuple[str, int], int]:
    """What a broker answers to AlterReplicaLogDirs, by partition."""
    request = AlterReplicaLogDirsRequest
    topics = [request.AlterReplicaLogDir.AlterReplicaLogDirTopic(topic, [index]) for topic, index in keys]
    link = cluster.link()
    try:
        answer = link.send(request(dirs=[request.AlterReplicaLogDir(path, topics)]), broker)
    finally:
        link.close()
    return {(t.topic_name, p.partition_index): p.error_code for t in answer.results for p in t.partitions}


def held(cluster: Cluster, broker: int) -> dict[tuple[str, int], str]:
    """The disk of each of a broker's replicas."""
    return {
        (topic["name"], partition["partition_index"]): Path(path).parent.name
        for path, entry in cluster.log_dirs(broker).items()
        for topic in entry["topics"]
        for partition in topic["partitions"]
    }


def make_on(cluster: Cluster, topic: str, brokers: list[int], disks: list[str]) -> None:
    """A topic whose partitions stand on these disks of each of their brokers, and whose place the controllers know."""
    for broker in brokers:
        for index, disk in enumerate(disks):
            path = cluster.nodes[broker].log_dir(disk)
            assert alter(cluster, broker, path, (topic, index)) == {(topic, index): UNKNOWN}
    cluster.make_topic(topic, [brokers] * len(disks), **{"min.insync.replicas": str(len(brokers))})
    for broker in brokers:
        wait_for("each on its disk", partial(stands_on, cluster, broker, topic, disks))
        wait_for("all dirs on record", partial(on_record, cluster.nodes[broker]))


def on_disks(cluster: Cluster, broker: int, topic: str) -> list[str]:
    found = held(cluster, broker)
    return [found[key] for key in sorted(found) if key[0] == topic]


def stands_on(cluster: Cluster, broker: int, topic: str, disks: list[str]) -> bool:
    return on_disks(cluster, broker, topic) == disks


def on_record(node: Node) -> bool:
    """Whether the controllers know the dirs of all of a broker's replicas."""
    return node.metric("kafka_server_assignmentsmanager_queuedreplicatodirassignments") == 0


def restart(cluster: Cluster, node: Node) -> None:
    cluster.forget_admin()
    node.new_pod()
    node.preflight()
    node.start()
    node.wait_ready()


def test_a_move_within_a_broker_takes_topic_names_of_up_to_213_characters(cluster: Cluster) -> None:
    path = cluster.nodes[ELSEWHERE].log_dir("disk0")
    answers = alter(
        cluster, ELSEWHERE, path, ("a" * 213, 0), ("b" * 214, 0), ("c" * 212, 10), ("d" * 213, 10)
    )
    assert [code for _, code in sorted(answers.items())] == [
        UNKNOWN,  # it may be moved once it is there
        INVALID_TOPIC,
        UNKNOWN,  # what counts is the name of the folder, the partition's digits among it
        INVALID_TOPIC,
    ]


def test_replicas_of_a_dir_that_is_gone_are_made_anew_only_once_no_dir_is_offline(cluster: Cluster) -> None:
    node = cluster.nodes[STAYS]
    make_on(cluster, "shrunk", [ELSEWHERE, STAYS], ["disk0"])
    make_on(cluster, "many", [STAYS], ["disk1"] * 4)
    make_on(cluster, "gone", [STAYS], ["disk2"] * 2)
    for index in (0, 1):
        cluster.produce("gone", index, [b"one"])
    cluster.forget_admin()
    node.stop()
    wait_for("one in sync", lambda: cluster.isr("shrunk") == {0: [ELSEWHERE]})
    assert cluster.partitions("shrunk")[0].elr == (STAYS,)
    assert {p.elr for p in cluster.partitions("gone").values()} == {(STAYS,)}

    # A replica that leaves by a shrink stays in the ELR: once it is a replica again, it may be elected with what it has.
    reassign(cluster, "shrunk", [ELSEWHERE])
    wait_for("one replica", lambda: cluster.partitions("shrunk")[0].replicas == (ELSEWHERE,))
    assert cluster.partitions("shrunk")[0].elr == (STAYS,)

    # One dir is gone, another one is offline.
    left, offline = node.slots.pop("disk2"), node.slots["disk1"]
    assert left.disk is not None
    assert offline.disk is not None
    left.disk.unmount()
    offline.disk.unmount()
    offline.mode = PLACEHOLDER
    restart(cluster, node)
    make_on(cluster, "new", [STAYS], ["disk0"])  # a replica that never was anywhere is made
    assert not on_disks(cluster, STAYS, "gone")
    assert {p.leader for p in cluster.partitions("gone").values()} == {None}
    # It was stopped in order, but a dir whose clean stop cannot be read makes it an unclean one.
    assert {p.elr for p in cluster.partitions("gone").values()} == {()}

    # With all dirs up, replicas whose directory id no dir has go where the fewest logs are, empty.
    cluster.forget_admin()
    node.stop()
    offline.mode = ACTIVE
    restart(cluster, node)
    wait_for("made anew", partial(stands_on, cluster, STAYS, "gone", ["disk0"] * 2))
    wait_for("all dirs on record", partial(on_record, node))
    # An election of the preferred leader elects the last known one, uncleanly, where ISR and ELR are empty.
    if {p.leader for p in cluster.partitions("gone").values()} != {STAYS}:
        cluster.admin().elect_leaders(ElectionType.PREFERRED, {"gone": [0, 1]})
    wait_for("leaders", lambda: {p.leader for p in cluster.partitions("gone").values()} == {STAYS})
    assert [cluster.end_offset("gone", index) for index in (0, 1)] == [0, 0]


def reassign(cluster: Cluster, topic: str, replicas: list[int] | None) -> None:
    """Give a topic's only partition other replicas; None cancels what is under way."""
    link = cluster.link()
    try:
        kafka_commands.reassign(link, [(topic, 0, replicas)])
    finally:
        link.close()


def reassigning(cluster: Cluster, topic: str) -> tuple[list[int], list[int]]:
    """Replicas of a topic's only partition that come, and that go."""
    found = cluster.admin().list_partition_reassignments({topic: [0]})[TopicPartition(topic, 0)]
    return found["adding_replicas"], found["removing_replicas"]


def test_a_reassignment_is_undone_by_a_cancel_and_a_log_that_is_nobodys_is_set_aside(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[STAYS]
    cluster.make_topic("moved", [[ELSEWHERE]])
    make_on(cluster, "left", [ELSEWHERE, STAYS], ["disk0"])
    cluster.forget_admin()
    node.stop()
    wait_for("one in sync", lambda: cluster.isr("left") == {0: [ELSEWHERE]})
    reassign(cluster, "left", [ELSEWHERE])

    # Who asks for the replicas from before does not undo a reassignment: what was to come comes and goes at once, for ever.
    reassign(cluster, "moved", [STAYS])
    assert reassigning(cluster, "moved") == ([STAYS], [ELSEWHERE])
    reassign(cluster, "moved", [ELSEWHERE])
    assert reassigning(cluster, "moved") == ([STAYS], [STAYS])
    restart(cluster, node)
    assert reassigning(cluster, "moved") == ([STAYS], [STAYS])
    reassign(cluster, "moved", None)
    wait_for("as before", lambda: cluster.partitions("moved")[0].replicas == (ELSEWHERE,))

    # What left the assignment while its broker was down is set aside, and stays.
    (stray,) = Path(node.log_dir("disk0")).glob("left-0.*")
    assert stray.name.endswith("-stray")


def test_no_topic_is_created_on_brokers_that_are_down(cluster: Cluster) -> None:
    node = cluster.nodes[STAYS]
    cluster.forget_admin()
    node.stop()
    cluster.forget_admin()
    with pytest.raises(InvalidReplicationAssignmentError, match="fenced or in controlled shutdown"):
        cluster.make_topic("nobody", [[STAYS]])
    # One of several that is there is enough, and leads; so it is for a placement that Kafka chooses.
    cluster.make_topic("somebody", [[STAYS, ELSEWHERE]])
    cluster.admin().create_topics([NewTopic("chosen", num_partitions=4, replication_factor=1)])
    wait_for("all partitions", lambda: len(cluster.partitions("chosen")) == 4)
    for topic in ("somebody", "chosen"):
        found = cluster.partitions(topic).values()
        assert {(p.leader, p.isr) for p in found} == {(ELSEWHERE, (ELSEWHERE,))}
    restart(cluster, node)
    wait_for("both in sync", lambda: cluster.isr("somebody") == {0: [ELSEWHERE, STAYS]})


def test_requests_that_touch_a_disk_that_hangs_are_not_answered_while_its_broker_lives_on(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[STAYS]
    make_on(cluster, "hung", [STAYS], ["disk0"])
    disk = node.slots["disk0"].disk
    assert disk is not None
    disk.freeze()
    try:
        for _ in range(3):  # more than there are threads that handle requests
            with pytest.raises(KafkaError):
                cluster.produce("hung", 0, [b"x"], retries=0, request_timeout_ms=4000)
        link = cluster.link()
        try:
            with pytest.raises((KafkaError, TimeoutError)):
                link.send(DescribeLogDirsRequest(topics=None), STAYS)
        finally:
            link.close()
        found = {p.index: p.leader for p in cluster.partitions("hung").values()}
        assert found in ({0: STAYS}, {}), "its session goes on"
    finally:
        disk.thaw()
    cluster.forget_admin()
    wait_for("answers again", lambda: bool(cluster.log_dirs(STAYS)))
    assert {p.leader for p in cluster.partitions("hung").values()} == {STAYS}

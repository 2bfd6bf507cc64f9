"""What becomes of reassignments and of blank disks where a partition has lost its last replica in sync, with ELR (KIP-966)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from kafka import TopicPartition
from kafka.protocol.admin import ElectionType

from spindle.disks.rules import may_format
from spindle.model.view import Partition
from spindle.moves.verify import forgotten
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node, wait_for

pytestmark = pytest.mark.slow

STAYS, GOES, OTHER = 0, 1, 2


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=3, disks=1)
    made.up()
    return made


def reassign(cluster: Cluster, replicas: list[int] | None, topic: str = "alone") -> None:
    """Give the partition other replicas; None cancels what is under way."""
    link = cluster.link()
    try:
        kafka_commands.reassign(link, [(topic, 0, replicas)])
    finally:
        link.close()


def moving(cluster: Cluster, topic: str = "alone") -> tuple[list[int], list[int], list[int]]:
    """All replicas of the partition, those that come, and those that go."""
    found = cluster.admin().list_partition_reassignments({topic: [0]})[TopicPartition(topic, 0)]
    return found["replicas"], found["adding_replicas"], found["removing_replicas"]


def only(cluster: Cluster, topic: str) -> Partition:
    return cluster.partitions(topic)[0]


def again(cluster: Cluster, node: Node) -> None:
    cluster.forget_admin()
    node.up()
    node.wait_ready()


def test_an_unclean_election_does_not_end_a_reassignment_and_asking_again_does(cluster: Cluster) -> None:
    cluster.make_topic("alone", [[GOES]], **{"min.insync.replicas": "1"})
    cluster.produce("alone", 0, [b"one"] * 10)
    cluster.forget_admin()
    cluster.nodes[GOES].kill()
    wait_for("nobody leads", lambda: only(cluster, "alone").leader is None)
    assert only(cluster, "alone").elr == (GOES,)

    # The log is made though there is nobody that it could be copied from, and to cancel that would be an unclean election.
    reassign(cluster, [STAYS])
    assert moving(cluster) == ([STAYS, GOES], [STAYS], [GOES])

    def made() -> bool:
        dirs = cluster.log_dirs(STAYS).values()
        return any(topic["name"] == "alone" for entry in dirs for topic in entry["topics"])

    wait_for("an empty log", made)
    with pytest.raises(kafka_commands.RejectedError, match="unclean leader election"):
        reassign(cluster, None)

    # Who names all of its replicas changes their order, and nothing else.
    reassign(cluster, [GOES, STAYS])
    assert moving(cluster) == ([GOES, STAYS], [STAYS], [GOES])

    cluster.admin().elect_leaders(ElectionType.UNCLEAN, {"alone": [0]})
    wait_for("it leads", lambda: only(cluster, "alone").leader == STAYS)
    assert only(cluster, "alone").isr == (STAYS,)
    cluster.produce("alone", 0, [b"two"])
    assert moving(cluster) == ([GOES, STAYS], [STAYS], [GOES]), (
        "all is in sync that stays, and it is not over"
    )

    reassign(cluster, [STAYS])
    wait_for("over", lambda: only(cluster, "alone").replicas == (STAYS,))
    again(cluster, cluster.nodes[GOES])


def test_asking_again_ends_it_also_if_a_replica_that_stays_is_dead(cluster: Cluster) -> None:
    cluster.make_topic("pair", [[GOES, OTHER]], **{"min.insync.replicas": "1"})
    cluster.produce("pair", 0, [b"one"] * 10)
    cluster.forget_admin()
    for broker in (OTHER, GOES):
        cluster.nodes[broker].kill()
    wait_for("nobody leads", lambda: only(cluster, "pair").leader is None)
    reassign(cluster, [STAYS, OTHER], "pair")
    cluster.admin().elect_leaders(ElectionType.UNCLEAN, {"pair": [0]})
    wait_for("it leads", lambda: only(cluster, "pair").leader == STAYS)
    assert moving(cluster, "pair") == ([STAYS, OTHER, GOES], [STAYS], [GOES])
    assert forgotten(replace(only(cluster, "pair"), adding=(STAYS,), removing=(GOES,)))

    reassign(cluster, [STAYS, OTHER], "pair")
    wait_for("over", lambda: only(cluster, "pair").replicas == (STAYS, OTHER))
    for broker in (OTHER, GOES):
        again(cluster, cluster.nodes[broker])


def test_a_blank_disk_under_one_that_is_only_eligible_is_never_elected(cluster: Cluster) -> None:
    cluster.make_topic("both", [[GOES, STAYS]], **{"min.insync.replicas": "2"})
    cluster.produce("both", 0, [b"one"] * 10)
    gone, stays = cluster.nodes[GOES], cluster.nodes[STAYS]
    cluster.forget_admin()
    gone.stop()
    wait_for("one in sync", lambda: only(cluster, "both").isr == (STAYS,))
    assert only(cluster, "both").elr == (GOES,)
    assert may_format(cluster.view(), GOES, [("both", 0)]) is None

    # Even where the one in sync goes as well before the blank one has started.
    cluster.forget_admin()
    stays.kill()
    slot = gone.slots["disk0"]
    assert slot.disk is not None
    slot.disk.unmount()
    slot.disk.wipe()
    slot.directory_id = cluster.directory_id(GOES, "disk0", generation=1)
    slot.fs_uuid = None
    again(cluster, gone)
    wait_for("eligible no more", lambda: GOES not in (only(cluster, "both").elr or (GOES,)))
    assert only(cluster, "both").leader is None
    again(cluster, stays)
    wait_for("both in sync", lambda: set(only(cluster, "both").isr) == {STAYS, GOES})
    assert cluster.end_offset("both", 0) == 10

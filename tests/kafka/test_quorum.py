"""Three controllers are born as one quorum, survive the loss of one, and take a blank one only under a new directory id."""

from collections.abc import Callable

import pytest

from spindle.cluster.view import Quorum
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(controllers=3, brokers=1, disks=1)
    made.up()
    return made


def quorum(cluster: Cluster) -> Quorum:
    found = wait_for("the quorum", lambda: cluster.view().quorum)
    assert isinstance(found, Quorum)
    return found


def test_the_quorum_is_the_one_on_record(cluster: Cluster) -> None:
    recorded = {voter.node_id: voter.directory_id for voter in cluster.voters}
    assert {voter.id: voter.directory_id for voter in quorum(cluster).voters} == recorded
    wait_for("all caught up", lambda: all(voter.caught_up for voter in quorum(cluster).voters))


def test_two_of_three_go_on_and_a_blank_disk_under_a_new_id_is_no_voter(cluster: Cluster) -> None:
    leader = quorum(cluster).leader
    lost = cluster.nodes[leader]
    lost.kill()
    wait_for("another leader", lambda: quorum(cluster).leader not in {leader, None})
    cluster.make_topic("after", [[0]])

    slot = lost.slots["metadata"]
    assert slot.disk is not None
    slot.disk.unmount()
    slot.disk.wipe()
    slot.directory_id = cluster.directory_id(leader, "metadata", generation=1)
    slot.fs_uuid = None
    lost.up()
    lost.wait_ready()
    wait_for("an observer", lambda: leader in quorum(cluster).observers)
    recorded = {voter.node_id: voter.directory_id for voter in cluster.voters}
    assert {voter.id: voter.directory_id for voter in quorum(cluster).voters} == recorded

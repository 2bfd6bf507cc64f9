"""The controllers' quorum on real Kafka: born whole, then larger, smaller, and with another disk for one that lost its own (KIP-853)."""

from collections.abc import Callable

import pytest
from kafka.errors import KafkaError

from spindle.controllers.quorum_steps import (
    AddVoterStep,
    DeleteController,
    RecreateController,
    RemoveVoterStep,
    Step,
)
from spindle.model.layout import METADATA_DISK
from spindle.model.view import Quorum
from spindle_operator import quorum as orders
from tests.kafka.cluster import Cluster
from tests.kafka.conductor import Conductor
from tests.kafka.node import wait_for

A, B, C, D, E = 9000, 9001, 9002, 9003, 9004


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(controllers=3, brokers=1, disks=1)
    made.up()
    return made


@pytest.fixture(scope="module")
def single(make_cluster: Callable[..., Cluster]) -> Conductor:
    """A cluster that begins with one controller; the tests below take it further, one after the other."""
    made = make_cluster(controllers=1, brokers=1, disks=1)
    made.up()
    return Conductor(made)


def quorum(cluster: Cluster) -> Quorum:
    found = wait_for("the quorum", lambda: cluster.view().quorum)
    assert isinstance(found, Quorum)
    return found


def voters(cluster: Cluster) -> dict[int, str]:
    return {voter.id: voter.directory_id for voter in quorum(cluster).voters}


def order_of(steps: list[Step]) -> list[str]:
    signs = {AddVoterStep: "+", RemoveVoterStep: "-"}
    return [
        f"{signs[type(step)]}{step.id}" for step in steps if isinstance(step, AddVoterStep | RemoveVoterStep)
    ]


def lose_disk(cluster: Cluster, node_id: int) -> None:
    """The process ends, and a blank disk stands in the place of its own."""
    node = cluster.nodes[node_id]
    node.kill()
    disk = node.slots[METADATA_DISK].disk
    assert disk is not None
    disk.unmount()
    disk.wipe()
    node.insert_all()


@pytest.mark.slow
def test_the_quorum_is_the_one_on_record(cluster: Cluster) -> None:
    assert voters(cluster) == {voter.node_id: voter.directory_id for voter in cluster.voters}
    wait_for("all caught up", lambda: all(voter.caught_up for voter in quorum(cluster).voters))


def test_two_of_three_go_on_and_a_blank_disk_under_a_new_id_is_no_voter(cluster: Cluster) -> None:
    leader = quorum(cluster).leader
    lost = cluster.nodes[leader]
    lose_disk(cluster, leader)
    wait_for("another leader", lambda: quorum(cluster).leader not in {leader, None})
    cluster.make_topic("after", [[0]])

    slot = lost.slots[METADATA_DISK]
    slot.directory_id = cluster.directory_id(leader, METADATA_DISK, generation=1)
    slot.fs_uuid = None
    lost.up()
    lost.wait_ready()
    new = (leader, slot.directory_id)
    wait_for("an observer", lambda: new in {(o.id, o.directory_id) for o in quorum(cluster).observers})
    assert voters(cluster) == {voter.node_id: voter.directory_id for voter in cluster.voters}


def test_one_becomes_three_though_orders_are_broken_off(single: Conductor) -> None:
    single.impatient = True
    steps = single.reach(3)
    single.impatient = False
    # What was broken off is ordered again only if nothing came of it.
    assert list(dict.fromkeys(order_of(steps))) == [f"+{B}", f"+{C}"]
    assert voters(single.cluster).keys() == {A, B, C}
    single.cluster.make_topic("three", [[0]])


def test_orders_that_are_given_twice_are_fine_and_others_are_turned_down(single: Conductor) -> None:
    cluster = single.cluster
    link = cluster.link()
    try:
        orders.add_voter(link, cluster.cluster_id, B, single.record[B], cluster.nodes[B].address)
        orders.remove_voter(link, cluster.cluster_id, D, cluster.directory_id(D, METADATA_DISK))
        other = cluster.directory_id(B, METADATA_DISK, generation=7)
        orders.remove_voter(link, cluster.cluster_id, B, other)  # that very disk does not vote
        with pytest.raises(KafkaError):
            orders.remove_voter(link, cluster.directory_id(0, "another"), B, single.record[B])
    finally:
        link.close()
    assert voters(cluster).keys() == {A, B, C}


# That two of three go on without the active one is shown above.
@pytest.mark.parametrize(
    "active",
    [pytest.param(False, id="a follower"), pytest.param(True, id="the active one", marks=pytest.mark.slow)],
)
def test_one_that_lost_its_disk_is_replaced(single: Conductor, active: bool) -> None:
    cluster = single.cluster
    single.reach(3)
    leader = quorum(cluster).leader
    lost = leader if active else next(i for i in single.record if i != leader)
    before = voters(cluster)
    lose_disk(cluster, lost)
    steps = single.reach(3)
    # An order that is not committed in time is given again.
    assert list(dict.fromkeys(type(step) for step in steps)) == [
        RemoveVoterStep,
        RecreateController,
        AddVoterStep,
    ]
    after = voters(cluster)
    assert after.keys() == before.keys()
    assert {i for i in after if after[i] != before[i]} == {lost}
    cluster.make_topic(f"without-{lost}-{active}", [[0]])


@pytest.mark.slow
def test_three_become_five_and_three_again_the_active_one_not_first(single: Conductor) -> None:
    single.reach(3)
    assert list(dict.fromkeys(order_of(single.reach(5)))) == [f"+{D}", f"+{E}"]
    assert voters(single.cluster).keys() == {A, B, C, D, E}
    began = len(single.done)
    single.impatient = True
    single.reach(3)
    single.impatient = False
    assert voters(single.cluster).keys() == {A, B, C}
    leaving = [(step, leader) for step, leader in single.done[began:] if isinstance(step, RemoveVoterStep)]
    assert {step.id for step, _ in leaving} == {D, E}
    if leaving[0][1] in (D, E):
        assert leaving[0][0].id != leaving[0][1]
    assert sum(isinstance(step, DeleteController) for step, _ in single.done[began:]) == 2
    single.cluster.make_topic("three-again", [[0]])


@pytest.mark.slow
def test_three_become_one_and_those_that_left_come_back_with_their_disks(single: Conductor) -> None:
    single.reach(3)
    before = voters(single.cluster)
    single.reach(1)
    assert voters(single.cluster).keys() == {A}
    single.cluster.make_topic("alone", [[0]])
    single.reach(3)
    assert voters(single.cluster) == before
    single.cluster.make_topic("whole-again", [[0]])

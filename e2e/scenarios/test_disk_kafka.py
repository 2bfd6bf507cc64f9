"""Kafka's own tests of failing log dirs, with Spindle: log_dir_failure_test, LogDirFailureTest, KRaftClusterTest."""

import pytest

from e2e.scenarios.disk_slot import assert_spread, choose, conclude, dies, replace, slots, until_evacuated
from e2e.scenarios.lab import CLUSTER
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import THREE, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("bounce", [False, True], ids=["running", "bounced"])
def test_the_disk_of_a_leader_or_of_a_follower(
    stand: Stand, machine: Machine, spindle_image: str, role: str, bounce: bool
) -> None:
    """log_dir_failure_test: the replica leaves the ISR within a minute, is not leader, the broker stays alive, and clients continue."""
    lab = stand.get(THREE)
    name = f"{role}{'bounced' * bounce}"
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(name, partitions=1)) as running:
        leader, _, _ = running.partitions()[f"{name}-0"]
        where = {r.broker: r.disk for r in running.placement()}
        broker = leader if role == "leader" else min(set(where) - {leader})
        slot = slots(lab)[broker, where[broker]]
        died = dies(timeline, machine, slot)
        if bounce:
            lab.kubectl("delete", "pod", slot.owner, "--wait=false")

        def left() -> bool:
            now, isr, _ = running.partitions()[f"{name}-0"]
            return now not in {broker, -1} and broker not in isr

        took = lab.until("it is neither leader nor in the ISR", left, 60)
        running.until_all_writable(60)
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        print(f"{role} out of the ISR after {took:.1f} s")
        conclude(running, timeline, died)


def test_a_disk_dies_while_no_controller_answers(stand: Stand, machine: Machine, spindle_image: str) -> None:
    """testLogDirNotificationTimeout: the broker cannot report its dead dir to the controllers, and exits."""
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("untold")) as running:
        slot = choose(lab, running)
        controllers = [lab.the("pod", f"{CLUSTER}-controller-{index}") for index in (0, 1)]
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
        for pod in controllers:
            lab.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=1", "--wait=false")
        died = dies(timeline, machine, slot)
        timeline.until("pod", "[1-9] restarts|not ready", slot.owner, since=died, seconds=120)
        timeline.mark("the controllers come back")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
        until_evacuated(timeline, died, slot, 400)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_disk_dies_to_which_replicas_are_moving(stand: Stand, machine: Machine, spindle_image: str) -> None:
    """testAbandonedFutureReplicaRecovered: partial copies are on the dead disk; the originals stay in use."""
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("future", 12), fill=128) as running:
        source = choose(lab, running)
        target = next(s for (broker, _), s in slots(lab).items() if broker == source.broker and s != source)
        began = timeline.mark(f"{source.subject} is to be drained")
        source.ask_for("Drained")
        timeline.until("moves", "Copying", source.owner, since=began, seconds=120)
        died = dies(timeline, machine, target)
        source.withdraw()
        until_evacuated(timeline, died, target)
        replace(timeline, machine, target)
        assert_spread(running)
        conclude(running, timeline, died)

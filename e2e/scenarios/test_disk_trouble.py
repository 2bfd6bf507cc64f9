"""A disk fails at a bad moment, or together with others."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from e2e.scenarios.disk_slot import (
    Slot,
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
)
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import CLUSTER, SYSTEM, Lab, pause
from e2e.scenarios.load import FLUSHED, Load, Replica, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import SIX, THREE, Kind, Stand, is_well, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def test_it_dies_while_its_broker_restarts(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("restart")) as running:
        slot = choose(lab, running)
        timeline.mark(f"{slot.owner} is deleted")
        lab.kubectl("delete", "pod", slot.owner, "--wait=false")
        timeline.until("pod", "being deleted|gone", slot.owner)
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


@pytest.mark.parametrize("kind", [pytest.param(THREE, id="three"), pytest.param(SIX, id="six")])
def test_it_dies_while_it_is_drained(stand: Stand, machine: Machine, spindle_image: str, kind: Kind) -> None:
    lab = stand.get(kind)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic(f"drained{kind.brokers}", partitions=12), fill=128) as running,
    ):
        slot = choose(lab, running)
        began = timeline.mark(f"{slot.subject} is to be drained")
        slot.ask_for("Drained")
        timeline.until("journal", "moves", since=began, seconds=90)
        died = dies(timeline, machine, slot)
        timeline.until("disk", "^(Evacuated|Drained)", slot.subject, since=died, seconds=300)
        slot.withdraw()
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


@contextmanager
def _no_operator(lab: Lab) -> Iterator[None]:
    """No operator: its Deployment is scaled to zero and its pods are killed."""
    system = Lab(lab.kubectl_command, lab.kubeconfig, SYSTEM)
    replicas = system.the("deployment", "spindle")["spec"]["replicas"]
    system.kubectl("scale", "deployment/spindle", "--replicas=0")
    system.kubectl(
        "delete", "pods", "-l", "app.kubernetes.io/component=operator", "--force", "--grace-period=0"
    )
    try:
        yield
    finally:
        system.kubectl("scale", "deployment/spindle", f"--replicas={replicas}")


@contextmanager
def _no_agents(lab: Lab) -> Iterator[None]:
    """No agent on any node."""
    agents = Lab(lab.kubectl_command, lab.kubeconfig, AGENTS)

    def only_on(nodes: dict[str, str] | None) -> None:
        agents.patch("daemonset", "spindle-agent", {"spec": {"template": {"spec": {"nodeSelector": nodes}}}})

    only_on({"e2e/nowhere": "true"})
    agents.until("no agent is left", lambda: not agents.list("pods"), 60)
    try:
        yield
    finally:
        only_on(None)


@pytest.mark.parametrize(
    ("away", "seconds"),
    [pytest.param(_no_operator, 30, id="operator"), pytest.param(_no_agents, 90, id="agents")],
)
def test_it_dies_while_nobody_looks(
    stand: Stand,
    machine: Machine,
    spindle_image: str,
    away: Callable[[Lab], AbstractContextManager[None]],
    seconds: int,
) -> None:
    lab = stand.get(THREE)
    name = away.__name__.strip("_").replace("_", "")
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(name)) as running:
        slot = choose(lab, running)
        with away(lab):
            died = dies(timeline, machine, slot)
            if away is _no_agents:  # Kafka itself reports it, which is accepted after a while
                until_evacuated(timeline, died, slot)
            else:
                running.until_more(seconds * 10, seconds * 2)
            timeline.mark("an agent observes it again")
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


def test_two_of_three_disks_of_one_broker(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(Kind(3, disks=3))
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("two", partitions=12)) as running:
        one = choose(lab, running)
        other = next(
            s for (broker, disk), s in slots(lab).items() if broker == one.broker and disk != one.disk
        )
        died = dies(timeline, machine, one)
        dies(timeline, machine, other)
        for slot in (one, other):
            until_evacuated(timeline, died, slot)
        replace(timeline, machine, one, other)
        assert_spread(running)
        conclude(running, timeline, died)


@pytest.mark.parametrize("kind", [pytest.param(THREE, id="three"), pytest.param(SIX, id="six")])
def test_all_disks_of_one_broker(stand: Stand, machine: Machine, spindle_image: str, kind: Kind) -> None:
    lab = stand.get(kind)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(f"all{kind.brokers}", 12)) as running:
        first = choose(lab, running)
        both = [slot for (broker, _), slot in slots(lab).items() if broker == first.broker]
        died = timeline.mark(f"all disks of {first.owner}")
        for slot in both:
            dies(timeline, machine, slot)
        timeline.until("condition", "^False", "DisksHealthy", since=died)
        running.until_all_writable(180)
        replace(timeline, machine, *both)
        assert_spread(running)
        conclude(running, timeline, died)


def test_two_disks_that_share_partitions_are_not_shrunk_below_min_isr(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("shared", 12)) as running:
        one, other, names = _sharing(lab, running)
        died = timeline.mark(f"{one.subject} and {other.subject}, which share {', '.join(sorted(names))}")
        dies(timeline, machine, one)
        dies(timeline, machine, other)
        timeline.until("condition", "^True", "DataAtRisk", since=died)
        lab.until(
            "the partitions are reported",
            lambda: any(n in lab.condition("DataAtRisk")["message"] for n in names),
        )
        print(lab.condition("DataAtRisk"))
        timeline.mark("both disks are well again")
        for slot in (one, other):
            machine.disk("heal", slot.volume)
        assert all(len(running.partitions()[name][2]) == 3 for name in names)
        _help_back(lab, timeline, one)
        timeline.mark("well again")
        assert_spread(running)
        conclude(running, timeline, died)


def _help_back(lab: Lab, timeline: Timeline, slot: Slot) -> None:
    """Kafka uses a recovered disk only after a restart, and each broker may be needed by partitions that lack a replica on another one.

    A restart would make acknowledged writes fail, which only a user may decide.
    """
    lab.until("it is held back", lambda: "WouldBeUnderMinIsr" in lab.waits() or is_well(lab), 180)
    if not is_well(lab):
        timeline.mark(f"the user restarts {slot.owner}")
        lab.kubectl("delete", "pod", slot.owner, "--wait=false")
        until_well(lab)


def _sharing(lab: Lab, running: Load) -> tuple[Slot, Slot, set[str]]:
    """Two disks of two brokers, and the partitions that have a replica on each of them."""
    placed = running.placement()
    one = choose(lab, running)
    mine = {r.name for r in placed if (r.broker, r.disk) == (one.broker, one.disk)}
    shared: dict[tuple[int, str], set[str]] = {}
    for replica in placed:
        if replica.name in mine and replica.broker != one.broker:
            shared.setdefault((replica.broker, replica.disk), set()).add(replica.name)
    key = max(shared, key=lambda key: len(shared[key]))
    return one, slots(lab)[key], shared[key]


@pytest.mark.parametrize("kind", [pytest.param(THREE, id="three"), pytest.param(SIX, id="six")])
def test_a_single_copy_beside_others(stand: Stand, machine: Machine, spindle_image: str, kind: Kind) -> None:
    lab = stand.get(kind)
    single = Topic(f"single{kind.brokers}", partitions=1, replicas=1, min_isr=1, config=FLUSHED)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic(f"safe{kind.brokers}", 12), single) as running,
    ):

        def has_both(replicas: list[Replica]) -> bool:
            return len({replica.topic for replica in replicas}) == 2

        slot = choose(lab, running, has_both)
        died = dies(timeline, machine, slot)
        timeline.until("condition", f"^True.*{single.name}-0", "DataAtRisk", since=died)
        lab.until(
            "the other partitions accept writes", lambda: set(running.silent()) <= {f"{single.name}-0"}, 120
        )
        assert not slot.retired()
        assert slot.spec()["directoryId"] == slot.directory_id
        timeline.mark("the same disk is well again")
        machine.disk("heal", slot.volume)
        until_well(lab)
        running.until_all_writable()
        report = conclude(running, timeline, died)
        assert report.partitions[f"{single.name}-0"]["acked"] > 0


def test_many_disks_at_once_stop_what_goes_by_itself(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(SIX)

    def says(share: int, *, paused: bool) -> None:
        lab.patch("kafkacluster", CLUSTER, {"spec": {"disks": {"automaticShare": share}, "paused": paused}})

    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("many", 12)) as running:
        says(10, paused=True)  # so that it observes all of them at once
        racks: dict[str, list[int]] = {}
        for broker in lab.list("kafkabrokers"):
            racks.setdefault(broker["spec"]["rack"], []).append(broker["spec"]["id"])
        one, other, *_ = racks.values()
        # Both brokers of one rack and one of another: every partition keeps a replica.
        chosen = [slots(lab)[broker, "disk0"] for broker in (*one, other[0])]
        died = timeline.mark(f"three disks: {', '.join(slot.subject for slot in chosen)}")
        for slot in chosen:
            dies(timeline, machine, slot)
        for slot in chosen:
            timeline.until("verdict", "^Failed", slot.subject, since=died)
        says(10, paused=False)
        entry = lab.until_waiting("CorrelatedDiskFailures")
        print(entry)
        began = timeline.mark("three are too many")
        pause(40)
        assert timeline.first("journal", "moves|shrunk", since=began) is None
        assert not timeline.first("pod", "being deleted", since=began)
        assert all(slot.spec()["mode"] == "Active" and not slot.retired() for slot in chosen)
        timeline.mark("they answer again")
        for slot in chosen:
            machine.disk("heal", slot.volume)
        _help_back(lab, timeline, chosen[-1])
        timeline.mark("well again")
        says(100, paused=False)
        assert all(slot.spec()["directoryId"] == slot.directory_id for slot in chosen)
        assert_spread(running)
        conclude(running, timeline, died)

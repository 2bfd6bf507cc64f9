"""From whatever state an interruption has left, no step takes the majority of live voters away, and the wanted quorum comes out."""

from collections.abc import Collection
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spindle.controllers.next_step import Member, next_step
from spindle.controllers.quorum_steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
    Step,
)
from spindle.model.quorum_sizes import SIZES
from spindle.model.view import Quorum, Voter
from spindle.model.waiting import Waiting
from tests.examples import examples
from tests.model.quorate import QuorateWorld

IDS = range(9000, 9005)


def directory(node_id: int, generation: int) -> str:
    return f"{node_id}-{generation}"


GENERATIONS = st.integers(0, 1)


@st.composite
def quorums(draw: st.DrawFn) -> Quorum:
    """Voters under either of two directory ids, some of them behind; observers that may be the same ones under the other."""
    voting = draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True))
    reading = draw(st.lists(st.tuples(st.sampled_from(IDS), GENERATIONS), unique=True))
    leader = draw(st.sampled_from(voting))
    caught_up = st.sampled_from([True, True, False, None])
    voters = tuple(Voter(i, directory(i, draw(GENERATIONS)), i == leader or draw(caught_up)) for i in voting)
    having = {(voter.id, voter.directory_id) for voter in voters}
    others = [(i, directory(i, g)) for i, g in reading if (i, directory(i, g)) not in having]
    return Quorum(leader, voters, tuple(Voter(i, d, draw(caught_up)) for i, d in others))


@st.composite
def records(draw: st.DrawFn) -> list[Member]:
    ids = sorted(draw(st.sets(st.sampled_from(IDS), min_size=1)))
    lost = st.sampled_from(["", "", "its disk is blank"])
    return [Member(i, directory(i, draw(GENERATIONS)), draw(st.booleans()), draw(lost)) for i in ids]


def majority(some: Collection[int], of: Collection[int]) -> bool:
    return 2 * len(set(some) & set(of)) > len(of)


def two_voters(up: bool, lost: str = "") -> dict[str, Any]:
    """The one that is too many leaves: who stays commits that alone. Even one called lost does so by choice while it keeps up."""
    voters = tuple(Voter(i, directory(i, 0), True) for i in (9000, 9004))
    members = [Member(9000, directory(9000, 0), True), Member(9004, directory(9004, 0), up, lost)]
    return {
        "quorum": Quorum(9000, voters, ()),
        "members": members,
        "wanted": 1,
        "carried": {},
    }


@settings(max_examples=examples(120), deadline=None)
@given(
    quorum=quorums(),
    members=records(),
    wanted=st.sampled_from(SIZES),
    carried=st.dictionaries(st.sampled_from(IDS), GENERATIONS),
)
@example(**two_voters(up=True))
@example(**two_voters(up=False))
@example(**two_voters(up=True, lost="its disk is blank"))
def test_no_step_from_any_state_endangers_the_majority(
    quorum: Quorum, members: list[Member], wanted: int, carried: dict[int, int]
) -> None:
    claims = {i: directory(i, generation) for i, generation in carried.items()}
    found = next_step(quorum, members, wanted, carried=claims)
    if isinstance(found, Waiting):
        assert found.message
        assert found.unblocked_by
    elif found is not None:
        check(found, quorum, {member.id: member for member in members}, wanted)


def check(step: Step, quorum: Quorum, members: dict[int, Member], wanted: int) -> None:
    voters = {voter.id: voter for voter in quorum.voters}
    well = {i for i, v in voters.items() if v.caught_up and i in members and members[i].up}
    match step:
        case RemoveVoterStep():
            check_leave(step, quorum, members, wanted, well)
        case AddVoterStep():
            assert step.id not in voters
            assert members[step.id] == Member(step.id, step.directory_id, True, members[step.id].lost)
            assert Voter(step.id, step.directory_id, True) in quorum.observers
            assert majority(well | {step.id}, voters.keys() | {step.id})
            assert voters.keys() <= well or len(voters) % 2 == 0
        case DeleteController() | RecreateController():
            assert step.id not in voters
        case ReaddVoter():
            assert step.id not in members or members[step.id].directory_id != step.directory_id
        case AdmitControllers():
            assert not set(step.ids) & members.keys()
            assert len(members) + len(step.ids) <= wanted


def check_leave(
    step: RemoveVoterStep, quorum: Quorum, members: dict[int, Member], wanted: int, well: set[int]
) -> None:
    voters = {voter.id: voter for voter in quorum.voters}
    rest = voters.keys() - {step.id}
    assert voters[step.id].directory_id == step.directory_id
    assert majority(well - {step.id}, rest)  # it is they who commit the removal (RemoveVoterHandler)
    surplus = set(sorted(members)[wanted:])
    if step.id in surplus and len(rest) >= wanted and rest <= well:  # by choice
        if step.id == quorum.leader:
            assert surplus & voters.keys() == {step.id}
            assert step.id in well
        return
    member = members[step.id]
    assert member.lost or member.directory_id != step.directory_id
    assert voters[step.id].caught_up is not True
    assert majority(well - {step.id}, voters.keys())


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.sampled_from(SIZES)),
        st.tuples(st.just("end"), st.sampled_from(IDS)),
        st.tuples(st.just("blank"), st.sampled_from(IDS)),
        st.tuples(st.just("lose"), st.sampled_from(IDS)),
        st.tuples(st.just("die"), st.integers(0, 12)),
        st.tuples(st.just("pass"), st.integers(1, 8)),
    ),
    max_size=14,
)


# Each is a cluster's life of hundreds of passes, so they are few.
@settings(max_examples=examples(5), deadline=None)
@given(born=st.sampled_from([1, 3]), events=EVENTS)
# Sent away while its disk is being formatted, and wanted again: it is the same controller.
@example(born=1, events=[("want", 3), ("end", 9000), *[("want", 1)] * 5, ("want", 5)])
# The node of a disk that stayed behind has another controller by the time that it is wanted again.
@example(born=1, events=[("want", n) for n in (1, 5, 1, 1, 1, 3, 5)])
def test_the_wanted_quorum_comes_out_of_every_interruption(born: int, events: list[tuple[str, int]]) -> None:
    assume(events)
    spec: dict[str, Any] = {"controllers": {"replicas": born, "storage": {"size": "1Gi"}}}
    world = QuorateWorld.of("abcabcabc", disks=6, **spec)
    world.settle()
    for what, value in events:
        if what == "want":
            world.cluster["spec"]["controllers"]["replicas"] = value
        elif what == "end":
            world.end(value)
        elif what == "blank" and may_lose(world, value):
            world.blank(value)
        elif what == "lose" and may_lose(world, value) and may_go(world, value):
            world.lose_node(value)
        world.reconcile(stop_after=value if what == "die" else None)
        for _ in range(value if what == "pass" else 1):
            world.breathe()
    wanted = world.cluster["spec"]["controllers"]["replicas"]
    world.settle(400)
    # Not always the lowest ids: one that is a voter still when three are wanted again stays, whoever left before it.
    ids = world.running("controller")
    assert len(ids) == wanted
    assert world.healthy(*ids)
    assert not world.cluster["status"]["waiting"]
    directories = [directory_id for _, directory_id in world.formats]
    assert len(directories) == len(set(directories))


def may_lose(world: QuorateWorld, node_id: int) -> bool:
    """Whether the cluster can bear the loss of a disk: the others that run are a majority, and it has one."""
    claim = world.objects.get(("PersistentVolumeClaim", f"data-metadata-demo-{node_id}"))
    if claim is None or not claim["spec"].get("volumeName"):
        return False
    live = world.live()
    rest = [i for i, directory_id in world.voters.items() if i != node_id and live.get(i) == directory_id]
    return 2 * len(rest) > len(world.voters)


def may_go(world: QuorateWorld, node_id: int) -> bool:
    """Whether the node of a controller's disk may be lost: no broker is there, and every controller still finds a node of its own."""
    node = world.node_of(node_id)
    taken = {pod["spec"].get("nodeName") for pod in world.all("Pod") if "-broker-" in pod["metadata"]["name"]}
    return ("Node", node) in world.objects and node not in taken and len(world.all("Node")) > len(IDS)

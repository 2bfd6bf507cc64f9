"""A pass carries out a bounded number of actions, those that others depend on in their order, and every action has its turn."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.actions import (
    Action,
    Apply,
    Create,
    Delete,
    Evict,
    IssueCertificate,
    MarkDown,
    Patch,
    SetPodCondition,
    Tune,
)
from spindle.model.events import MOST as MOST_EVENTS
from spindle.model.events import Event, summed_up
from spindle.reconcile import batches
from spindle.reconcile.batches import MOST, MOST_OF_A_KIND, batch, more_to_come, next_tried
from tests.model.dynamic_config import ConfiguredWorld


def apply(kind: str, name: str) -> Apply:
    return Apply(object={"kind": kind, "metadata": {"name": name}})


def certificate(name: str) -> IssueCertificate:
    return IssueCertificate(metadata={"name": name}, common_name="broker")


def gate(number: int, *, status: bool) -> SetPodCondition:
    return SetPodCondition(pod=f"p{number}", uid="u", type="t", status=status, why="")


def pod(number: int) -> Create:
    volumes = [
        {"name": "config", "configMap": {"name": f"config-{number}"}},
        {"name": "tls", "projected": {"sources": [{"secret": {"name": f"tls-{number}"}}]}},
    ]
    return Create(object={"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": {"volumes": volumes}})


FENCE = Delete(kind="Pod", name="demo-broker-7", uid="u", grace_seconds=1)


def test_a_change_of_all_brokers_does_not_keep_an_urgent_action_from_the_pass() -> None:
    many: list[Action] = [apply("ConfigMap", f"config-{n}") for n in range(1000)]
    many += [certificate(f"tls-{n}") for n in range(1000)]
    many += [FENCE, *(Tune(broker=n, values={}) for n in range(1000))]
    chosen = batch(many)
    assert FENCE in chosen
    assert len(chosen) == 3 * MOST_OF_A_KIND + 1
    assert list(chosen) == [action for action in many if action in chosen]
    more = more_to_come("demo", many)
    assert more is not None
    assert more.message == (
        "This pass makes 601 of 3001 changes, so that urgent ones do not wait for all of them; 2400 more follow."
    )
    assert more.quiet


def test_what_others_depend_on_is_carried_out_in_order_as_far_as_a_pass_goes() -> None:
    marks = MarkDown(resource_version="1", entries=())
    patches = [Patch(kind="KafkaBroker", name=f"b{n}", uid="u", body={}) for n in range(MOST)]
    records = [apply("KafkaBroker", f"b{n}") for n in range(300)]
    assert batch([*records, marks, Evict(pod="p", uid="u", resource_version="1")])[-1].__class__ is Evict
    assert batch([*records, *patches, marks]) == (*records, *patches[: MOST - 300])
    assert more_to_come("demo", [*patches, marks]) is not None
    assert more_to_come("demo", patches) is None


def test_a_pod_is_not_created_without_what_it_mounts() -> None:
    others: list[Action] = [apply("ConfigMap", f"config-{n}") for n in range(300)]
    secrets: list[Action] = [certificate(f"tls-{n}") for n in range(300)]
    chosen = batch([*others, *secrets, pod(299)])
    assert others[299] in chosen
    assert secrets[299] in chosen
    assert others[298] not in chosen
    assert len(chosen) == 2 * (MOST_OF_A_KIND + 1) + 1


def test_a_pod_that_is_not_in_sync_is_said_at_once() -> None:
    gates = [gate(n, status=n % 2 == 0) for n in range(900)]
    chosen = batch(gates)
    assert [g for g in chosen if isinstance(g, SetPodCondition) and not g.status] == gates[1::2]
    assert len(chosen) == 450 + MOST_OF_A_KIND


def _actions(kinds: list[int]) -> list[Action]:
    makers: list[Any] = [
        lambda n: apply("ConfigMap", f"m{n}"),
        lambda n: certificate(f"s{n}"),
        lambda n: gate(n, status=True),
        lambda n: gate(n, status=False),
        lambda n: Patch(kind="KafkaBroker", name=f"b{n}", uid="u", body={}),
        pod,
    ]
    return [makers[kind](number) for number, kind in enumerate(kinds)]


@given(
    kinds=st.lists(st.integers(0, 5), max_size=60),
    refused=st.sets(st.integers(0, 59)),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 4)),
)
def test_every_action_has_its_turn_whatever_is_refused(
    kinds: list[int], refused: set[int], sizes: tuple[int, int]
) -> None:
    left, never, tried = _actions(kinds), set[int](), dict[str, Any]()
    for number, action in enumerate(left):
        # What others depend on ends the pass if it is refused: that is the executor's part.
        if number in refused and kinds[number] < 3:
            never.add(id(action))
    most = sizes[0] + 3 * sizes[1]  # room for more than what may wait
    with mock.patch.object(batches, "MOST", most), mock.patch.object(batches, "MOST_OF_A_KIND", sizes[1]):
        for _ in range(2 * len(kinds) + 8):
            chosen = batch(left, tried)
            assert len(chosen) <= most
            tried = next_tried(tried, left, {id(action) for action in chosen})
            changed = {id(action) for action in chosen} - never
            left = [action for action in left if id(action) not in changed]
    assert {id(action) for action in left} == never


def test_what_somebody_else_reverts_does_not_take_the_turns_of_all_others() -> None:
    reverted = [apply("Service", f"s{n}") for n in range(MOST_OF_A_KIND + 50)]
    others = [apply("Service", f"t{n}") for n in range(300)]
    tried: dict[str, Any] = {}
    for _ in range(6):
        actions = [*reverted, *others]  # each pass plans what was reverted again
        chosen = batch(actions, tried)
        assert len(chosen) == min(MOST_OF_A_KIND, len(actions))
        tried = next_tried(tried, actions, {id(action) for action in chosen})
        others = [action for action in others if action not in chosen]
    assert not others


def test_a_pass_that_ended_early_has_tried_only_what_it_came_to() -> None:
    many = [apply("Service", f"s{n}") for n in range(3 * MOST_OF_A_KIND)]
    tried = next_tried({}, many, {id(action) for action in many[:3]})
    assert batch(many, tried) == tuple(many[3 : MOST_OF_A_KIND + 3])


def test_an_urgent_action_has_room_however_many_kinds_have_many_changes() -> None:
    many: list[Action] = []
    for kind in ("ConfigMap", "Service", "Secret", "TLSRoute", "NetworkPolicy", "Ingress"):
        many += [apply(kind, f"{kind}-{n}") for n in range(MOST_OF_A_KIND)]
    deletions = [Delete(kind="Pod", name=f"p{n}", uid="u", grace_seconds=1) for n in range(700)]
    chosen = batch([*many, *deletions, FENCE])
    assert chosen[-1] is FENCE
    assert len([each for each in chosen if isinstance(each, Delete)]) == len(deletions) + 1
    # Where those that do not wait fill a pass, the others still make some progress.
    assert batch([*many, *deletions, *deletions])[: MOST_OF_A_KIND // 10] == tuple(
        many[: MOST_OF_A_KIND // 10]
    )


@pytest.mark.parametrize("change", [{"num.io.threads": "9"}, {"broker.heartbeat.interval.ms": "2100"}])
def test_a_change_in_pieces_ends_where_the_whole_one_does(change: dict[str, str]) -> None:
    ends = []
    for most in (MOST_OF_A_KIND, 1):
        world = ConfiguredWorld.of(config={})
        world.settle()
        with mock.patch.object(batches, "MOST_OF_A_KIND", most):
            world.cluster["spec"]["config"] = change
            world.cluster["metadata"]["generation"] += 1
            first = world.reconcile()
            said = [wait["reason"] for wait in first.status["waiting"]]
            assert ("ManyChanges" in said) == (most == 1)
            world.breathe()
            world.settle(200)
        ends.append(
            [
                [
                    (m["metadata"]["name"], m["data"])
                    for m in world.all("ConfigMap")
                    if "config" in str(m["data"])
                ],
                [p["metadata"]["annotations"] for p in world.all("Pod")],
            ]
        )
        assert not world.cluster["status"]["waiting"]
    assert ends[0][0] == ends[1][0]
    assert len(ends[0][1]) == len(ends[1][1])


def test_the_events_of_a_pass_are_bounded_and_warnings_come_first() -> None:
    def event(kind: str, reason: str, number: int) -> Event:
        return Event(kind, reason, f"{reason} of {number}.", "KafkaCluster", "demo", "u")

    few = [event("Normal", "DiskActive", n) for n in range(MOST_EVENTS)]
    assert summed_up(few) == tuple(few)
    warnings = [event("Warning", "NodeLost", n) for n in range(700)]
    told = summed_up([*few, *warnings, event("Warning", "DiskFailed", 0)])
    assert len(told) == MOST_EVENTS + 3
    assert told[:MOST_EVENTS] == tuple(warnings[:MOST_EVENTS])
    texts = {each.reason: each.message for each in told[MOST_EVENTS:]}
    assert texts["NodeLost"] == (
        "NodeLost of 500. And 199 more; see the status of the KafkaBrokers and of the KafkaCluster."
    )
    assert texts["DiskActive"].startswith("DiskActive of 0. And 499 more;")
    assert texts["DiskFailed"] == "DiskFailed of 0."

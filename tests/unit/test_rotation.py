"""Replacing the certificate authority: what is waited for, and what is done in which order."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import Evict, IssueCertificate, KeepPassword, TurnCa
from spindle.model.state import read_state
from spindle.model.times import stamp
from spindle.security.certificates import authority_of, holder, unknown_holders, user_holder
from spindle.security.rotation import Authority, Holder, Pending, RotationPhase, RotationStep, next_step
from tests.model.world import YEARS, World

NEW = {"name": "orders", "namespace": "kafka", "uid": "uid-newer"}
BOTH = frozenset({"new", "old"})


def authority(phase: RotationPhase, due: str | None = None) -> Authority:
    signer, other = ("old", "new") if phase is RotationPhase.SPREADING else ("new", "old")
    return Authority(phase, signer, (signer,) if phase is RotationPhase.STABLE else (signer, other), due)


def node(issuer: str, trust: frozenset[str] = BOTH, *, started: bool = True) -> Holder:
    return Holder("node", issuer, trust, 1.0, started)


def client(issuer: str, age: float, trust: frozenset[str] = BOTH) -> Holder:
    return Holder("client", issuer, trust, age)


def test_nothing_is_done_without_a_cause() -> None:
    assert next_step(authority(RotationPhase.STABLE), [node("new", frozenset({"new"}))], 60) == (None, None)
    assert next_step(authority(RotationPhase.STABLE, "it is old"), [], 60) == (RotationStep.ANNOUNCE, None)


def test_the_new_one_signs_when_every_process_was_started_with_both_and_clients_had_their_time() -> None:
    spreading = authority(RotationPhase.SPREADING)
    assert next_step(spreading, [node("old"), client("old", 60)], 60) == (RotationStep.SWITCH, None)
    for behind in (node("old", started=False), node("old", frozenset({"old"}))):
        assert next_step(spreading, [behind, client("old", 60)], 60) == (None, Pending(("node",)))
    step, pending = next_step(spreading, [node("old"), client("old", 50)], 60)
    assert (step, pending) == (None, Pending(seconds=10.0))
    assert "another 10 s" in str(pending)
    step, pending = next_step(spreading, [node("old"), client("old", 600, frozenset({"old"}))], 60)
    assert (step, pending) == (None, Pending(clients=("client",)))


def test_the_old_one_goes_when_nobody_shows_its_certificates_any_more() -> None:
    changing = authority(RotationPhase.CHANGING)
    assert next_step(changing, [node("new"), client("new", 60)], 60) == (RotationStep.RETIRE, None)
    assert next_step(changing, [node("old"), client("new", 60)], 60) == (None, Pending(("node",)))
    assert next_step(changing, [node("new", started=False)], 60) == (None, Pending(("node",)))
    assert next_step(changing, [node("new"), client("old", 600)], 60) == (None, Pending(clients=("client",)))


def running() -> World:
    world = World.of(security={"clientGraceSeconds": 120})
    world.settle()
    return world


def turn(world: World, passes: int = 400) -> tuple[list[str], list[str]]:
    """Steps taken, and pods taken down, until nothing is left to do."""
    steps: list[str] = []
    evicted: list[str] = []
    for _ in range(passes):
        made = world.reconcile()
        steps += [action.step for action in made.actions if isinstance(action, TurnCa)]
        evicted += [action.pod for action in made.actions if isinstance(action, Evict)]
        world.breathe()
        if made.settled:
            break
    return steps, evicted


def authorities(world: World) -> set[str]:
    return {secret["view"]["issuer"] for secret in world.all("Secret")}


def test_by_hand_everybody_has_certificates_of_a_new_authority_and_nobody_trusts_the_old_one() -> None:
    world = running()
    assert authorities(world) == {"ca"}
    world.cluster["spec"]["security"]["rotate"] = "1"
    steps, evicted = turn(world)
    assert steps == ["announce", "switch", "retire"]
    assert authorities(world) == {world.get("Secret", "demo-ca")["view"]["fingerprint"]} != {"ca"}
    trusts = {tuple(s["view"]["trust"]) for s in world.all("Secret") if s["metadata"]["name"] != "demo-ca"}
    assert trusts == {(world.get("Secret", "demo-ca")["view"]["fingerprint"],)}
    # Once to trust both, once to show the new one's, once to forget the old one.
    assert {pod: evicted.count(pod) for pod in evicted} == dict.fromkeys(
        [f"demo-{role}-{n}" for role in ("broker", "controller") for n in range(3)], 3
    )
    assert turn(world) == ([], [])


def test_clients_get_their_time_once_however_often_certificates_are_renewed_or_users_come() -> None:
    world = running()
    world.cluster["spec"]["security"]["rotate"] = "1"
    steps: list[str] = []
    for number in range(300):
        if number % 20 == 0:  # every 100 s, with a grace of 120 s
            admin = world.get("Secret", "demo-admin")
            admin["view"]["issued"] = world.now - 0.9 * YEARS
            world.put(admin)
            kind = ("mtls", "scram")[number // 20 % 2]
            world.put(
                {
                    "kind": "KafkaUser",
                    "metadata": {"name": f"user{number}", "namespace": "kafka", "generation": 1},
                    "spec": {"cluster": "demo", "authentication": kind},
                }
            )
        made = world.reconcile()
        steps += [action.step for action in made.actions if isinstance(action, TurnCa)]
        world.breathe()
    assert steps == ["announce", "switch", "retire"]


@pytest.mark.parametrize("kind", ["mtls", "scram"])
def test_a_secret_of_a_user_who_was_there_before_owes_the_grace_though_it_was_made_anew(kind: str) -> None:
    world = running()
    world.put(
        {
            "kind": "KafkaUser",
            "metadata": {"name": "orders", "namespace": "kafka", "generation": 1},
            "spec": {"cluster": "demo", "authentication": kind},
        }
    )
    world.settle()
    world.cluster["spec"]["security"]["rotate"] = "1"
    world.reconcile()
    world.now += 600
    assert [type(a) for a in world.reconcile().actions] != []
    del world.objects["Secret", "demo.user.orders"]
    world.reconcile()
    state = read_state(world.snapshot(), world.now)
    ca = authority_of(state)
    assert ca is not None
    seat = user_holder(state, world.get("KafkaUser", "orders"))
    assert holder(state, seat, ca).age == 0.0
    world.now += 30
    assert holder(replace(state, now=world.now), seat, ca).age == pytest.approx(30.0)
    world.put(
        {**world.get("KafkaUser", "orders"), "metadata": {**NEW, "creationTimestamp": stamp(world.now)}}
    )
    newer = user_holder(state, world.get("KafkaUser", "orders"))
    assert holder(state, newer, ca).age == math.inf, "one who came later owes none"


def test_a_password_without_a_note_of_its_time_is_written_once_more() -> None:
    world = running()
    world.put(
        {
            "kind": "KafkaUser",
            "metadata": {"name": "orders", "namespace": "kafka", "generation": 1},
            "spec": {"cluster": "demo", "authentication": "scram"},
        }
    )
    world.settle()
    del world.get("Secret", "demo.user.orders")["metadata"]["annotations"][names.ANN_WRITTEN]
    assert [type(a) for a in world.reconcile().actions] == [KeepPassword]
    assert not world.reconcile().actions


def test_the_same_wish_is_answered_once_and_one_that_was_there_at_birth_never() -> None:
    world = World.of(security={"rotate": "at birth"})
    world.settle()
    assert turn(world, 5)[0] == []
    assert world.get("Secret", "demo-ca")["metadata"]["annotations"][names.ANN_ROTATED] == "at birth"


def test_by_age() -> None:
    world = running()
    world.now += 4.5e7  # in its last fifth of ten years
    assert turn(world)[0] == ["announce", "switch", "retire"]


def test_a_renewed_certificate_restarts_who_has_it_and_nobody_else() -> None:
    world = running()
    secret = world.get("Secret", "demo-broker-1-tls")
    secret["view"]["issued"] = world.now - 0.9e8
    world.put(secret)
    made = world.reconcile()
    assert [a.metadata["name"] for a in made.actions if isinstance(a, IssueCertificate)] == [
        "demo-broker-1-tls"
    ]
    assert turn(world)[1] == ["demo-broker-1"]


def test_a_pod_of_an_earlier_version_is_not_restarted_for_what_it_does_not_say() -> None:
    world = running()
    for pod in world.all("Pod"):
        del pod["metadata"]["annotations"][names.ANN_CERTIFICATE]
        pod["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
        world.put(pod)
    assert turn(world, 5)[1] == []
    assert not world.reconcile().actions


def test_it_says_what_it_waits_for() -> None:
    world = running()
    world.cluster["spec"]["security"]["rotate"] = "1"
    for _ in range(3):
        world.reconcile()
    (wait,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "CaReplaced"]
    assert "demo-broker-0-tls" in wait["unblockedBy"]
    assert wait["object"] == "Secret/demo-ca"


def restored(before: dict[str, Any], world: World) -> None:
    """The authority's Secret as it was, by a person."""
    world.put({**before, "metadata": {**world.get("Secret", "demo-ca")["metadata"], "annotations": {}}})


def test_an_older_authority_that_is_restored_signs_nothing_that_nobody_would_trust() -> None:
    world = running()
    older = copy.deepcopy(world.get("Secret", "demo-ca"))
    world.cluster["spec"]["security"]["rotate"] = "1"
    turn(world)
    latest = copy.deepcopy(world.get("Secret", "demo-ca"))
    world.cluster["spec"]["security"].pop("rotate")
    world.settle()
    restored(older, world)
    before = {s["metadata"]["name"]: s["view"] for s in world.all("Secret")}
    assert not world.reconcile().actions
    (wait,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "CaMismatch"]
    assert "demo-broker-0-tls" in wait["message"]
    del world.objects["Pod", "demo-broker-1"]
    turn(world, 10)
    assert world.running("broker") == [0, 1, 2], "one that died comes back with what the others trust"
    assert {s["metadata"]["name"]: s["view"] for s in world.all("Secret")} == before
    restored(latest, world)
    assert turn(world, 10) == ([], [])
    assert not [w for w in world.cluster["status"]["waiting"] if w["reason"] == "CaMismatch"]


def test_when_no_node_runs_any_more_an_older_authority_signs_for_all() -> None:
    world = running()
    older = copy.deepcopy(world.get("Secret", "demo-ca"))
    world.cluster["spec"]["security"]["rotate"] = "1"
    turn(world)
    world.cluster["spec"]["security"].pop("rotate")
    restored(older, world)
    for number, pod in enumerate(world.all("Pod")):
        if number % 2:
            del world.objects["Pod", pod["metadata"]["name"]]
        else:  # it still stops
            pod["metadata"]["deletionTimestamp"] = "now"
            world.put(pod)
    world.settle()
    assert authorities(world) == {"ca"}
    assert world.running("broker") == [0, 1, 2]


@pytest.mark.parametrize(
    ("phase", "issuer", "trust", "fits"),
    [
        (RotationPhase.STABLE, "new", {"new"}, True),
        (RotationPhase.STABLE, "old", BOTH, False),
        (RotationPhase.STABLE, "old", {"old"}, False),
        (RotationPhase.SPREADING, "old", {"old"}, True),
        (RotationPhase.SPREADING, "old", BOTH, True),
        (RotationPhase.SPREADING, "new", {"new"}, False),
        (RotationPhase.CHANGING, "old", BOTH, True),
        (RotationPhase.CHANGING, "new", BOTH, True),
        (RotationPhase.CHANGING, "newest", {"newest"}, False),
    ],
)
def test_who_fits_the_authority(phase: RotationPhase, issuer: str, trust: set[str], *, fits: bool) -> None:
    world = running()
    secret = world.get("Secret", "demo-broker-1-tls")
    secret["view"] |= {"issuer": issuer, "trust": sorted(trust)}
    for other in world.all("Secret"):
        if other["metadata"]["name"].endswith("-tls") and other != secret:
            del world.objects["Secret", other["metadata"]["name"]]
    found = unknown_holders(read_state(world.snapshot(), world.now), authority(phase))
    assert found == ([] if fits else ["demo-broker-1-tls"])


def test_an_authority_that_cannot_be_read_is_not_replaced() -> None:
    world = running()
    world.cluster["spec"]["security"]["rotate"] = "1"
    world.unknown = frozenset({"secrets"})
    assert turn(world, 5) == ([], [])

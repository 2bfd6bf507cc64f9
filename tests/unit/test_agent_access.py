"""The agents: their certificates and rights come and go with the brokers of their node, and it is said where they are missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import AlterUser, CertifyAgents, Delete
from spindle.model.agent_access import CLUSTER, RIGHTS, Request
from spindle.model.agents import Agent
from spindle.model.rights import Right
from spindle.model.snapshot import AgentCertificates, Certificate, SecretView
from spindle.reconcile.plan import ReconcilePlan, plan
from tests.model.store import START
from tests.model.world import World

NAME = "kafka.demo.spindle-agent"
LABELS = {names.LABEL_CLUSTER: "demo", names.LABEL_NAMESPACE: "kafka"}
DAY = 86400.0
LEGACY = "spindle-agent"


class _Reads:
    """What the agents of a test read: ConfigMaps of parts, or the one of all nodes as those of earlier versions."""

    def __init__(self) -> None:
        self.parts = True
        self.there: Mapping[str, AgentCertificates] = {}


READS = _Reads()


@pytest.fixture(autouse=True, params=["parts", "all nodes"])
def read(request: pytest.FixtureRequest) -> None:
    READS.parts = request.param == "parts"


def running() -> World:
    world = World.of()
    world.settle()
    return world


def nodes(world: World) -> list[str]:
    """Of the brokers."""
    return sorted({broker["spec"]["node"] for broker in world.all("KafkaBroker")})


def agents(world: World, **more: Any) -> dict[str, Agent]:
    """All alive, each with a key of its own."""
    return {
        node: Agent(
            **{
                "age": 1.0,
                "request": Request(f"pem of {node}", f"key of {node}"),
                "reads_parts": READS.parts,
                **more,
            }
        )
        for node in nodes(world)
    }


def certificate(node: str, *, left: float = 6 * DAY, issuer: str = "ca", key: str = "") -> Certificate:
    end = START + left
    principal = names.agent_principal(node)
    return Certificate(principal, (), issuer, "f", end, end - 7 * DAY, key=key or f"key of {node}")


def held(world: World, odd: Mapping[str, Certificate] | None = None) -> AgentCertificates:
    """What all agents have, but for some."""
    certificates = {node: certificate(node) for node in nodes(world)} | dict(odd or {})
    written = {names.ANN_WRITTEN: "2020-01-01T00:00:00Z"}
    meta = {"name": NAME, "uid": "m-1", "labels": LABELS, "annotations": written}
    return AgentCertificates(meta, certificates, ("ca",))


def former(**meta: Any) -> SecretView:
    """What agents of before have."""
    return SecretView({"name": NAME, "uid": "s-1", "labels": LABELS, **meta}, ("tls.crt",), None)


def rights(world: World) -> dict[str, frozenset[Any]]:
    return {names.agent_principal(node): RIGHTS for node in nodes(world)}


def map_of(node: str) -> str:
    """The ConfigMap that a node's agent reads."""
    return names.agent_part("kafka", "demo", node) if READS.parts else NAME


def maps(there: AgentCertificates | None) -> dict[str, AgentCertificates]:
    """The same certificates in the ConfigMaps that the agents read."""
    found: dict[str, dict[str, Certificate]] = {}
    for node, each in there.held.items() if there is not None else ():
        found.setdefault(map_of(node), {})[node] = each
    return {
        name: replace(there, metadata={**there.metadata, "name": name}, held=held)
        for name, held in found.items()
        if there is not None
    }


def planned(world: World, *, have: Any = None, **seen: Any) -> ReconcilePlan:
    made = world.snapshot()
    if "agent_certificates" in seen and not isinstance(seen["agent_certificates"], dict):
        seen["agent_certificates"] = maps(seen["agent_certificates"])
    READS.there = seen.get("agent_certificates", {})
    kafka = replace(made.kafka, agents=rights(world) if have is None else have)
    seen = {"agent_namespace": "agents", "agents": agents(world), "kafka": kafka, **seen}
    return plan(replace(made, **seen), START)


def each_certified(made: ReconcilePlan) -> dict[str, CertifyAgents]:
    """By ConfigMap."""
    found = [action for action in made.actions if isinstance(action, CertifyAgents)]
    assert len({action.metadata["name"] for action in found}) == len(found)
    return {action.metadata["name"]: action for action in found}


def certified(made: ReconcilePlan) -> CertifyAgents | None:
    """What the pass of `planned` makes of all ConfigMaps, as if they were one; None if it leaves them as they are."""
    found = each_certified(made)
    for name, action in found.items():
        assert {map_of(node) for node in (*action.requests, *action.keep)} == {name}
    gone = {a.name for a in made.actions if isinstance(a, Delete) and a.kind == "ConfigMap"}
    assert not gone & found.keys()
    if not found and not gone:
        return None
    requests = {node: pem for action in found.values() for node, pem in action.requests.items()}
    stay = {
        node for name, each in READS.there.items() if name not in found.keys() | gone for node in each.held
    }
    keep = tuple(sorted(stay.union(*(action.keep for action in found.values()))))
    one = next(iter(found.values()), CertifyAgents(metadata={}, requests={}, keep=(), days=0, trusted=()))
    return replace(one, requests=requests, keep=keep)


def altered(made: ReconcilePlan) -> dict[str, tuple[set[Any], set[Any]]]:
    """User → what it is given, and what is taken from it."""
    return {a.user: (set(a.give), set(a.take)) for a in made.actions if isinstance(a, AlterUser)}


def withdrawn(made: ReconcilePlan) -> list[tuple[str, str, str, str | None]]:
    return [
        (a.kind, a.name, a.uid, a.namespace)
        for a in made.actions
        if isinstance(a, Delete) and a.namespace is not None
    ]


def ended() -> World:
    """A KafkaCluster of which nothing is left but what was never its own."""
    world = running()
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(10):
        if world.reconcile().finished:
            return world
        world.breathe()
    raise AssertionError("it does not end")


def test_each_node_with_a_broker_gets_a_certificate_for_the_key_of_its_agent() -> None:
    world = running()
    others = {"elsewhere": Agent(age=1.0, request=Request("pem", "key"))}

    action = certified(planned(world, agents=agents(world) | others))

    assert action is not None
    assert action.requests == {node: f"pem of {node}" for node in nodes(world)}
    assert (action.keep, action.days, action.since) == ((), 7, "")
    meta = action.metadata
    namespace = world.cluster["metadata"]["namespace"]
    assert (map_of(nodes(world)[0]), meta["namespace"]) == (meta["name"], "agents") or READS.parts
    assert meta["name"].startswith(f"{namespace}.demo.spindle-agent")
    assert "ownerReferences" not in meta, "an owner in another namespace counts as gone"
    assert meta["labels"]["spindle.dev/cluster"] == "demo"
    assert meta["labels"]["spindle.dev/namespace"] == namespace


def test_the_right_to_change_settings_that_earlier_versions_gave_is_taken_back() -> None:
    world = running()
    first = names.agent_principal(nodes(world)[0])
    former_right = Right("cluster", CLUSTER, "literal", "AlterConfigs", "*")

    made = planned(world, have={**rights(world), first: RIGHTS | {former_right}})

    assert altered(made) == {first: (set(), {former_right})}


def test_one_is_signed_anew_for_another_key_in_its_last_third_and_by_another_authority() -> None:
    world = running()
    first, *others = nodes(world)
    well = planned(world, agent_certificates=held(world))
    assert certified(well) is None
    assert well.settled
    assert (
        certified(planned(world, agent_certificates=held(world, {first: certificate(first, left=2.4 * DAY)})))
        is None
    )

    for odd in (
        certificate(first, key="of the process before"),
        certificate(first, left=2.3 * DAY),
        certificate(first, issuer="another authority"),
    ):
        action = certified(planned(world, agent_certificates=held(world, {first: odd})))
        assert action is not None
        assert (set(action.requests), set(action.keep)) == ({first}, set(others))


def test_what_ended_while_the_operator_was_away_is_signed_anew_at_once() -> None:
    world = running()
    ended_then = {node: certificate(node, left=-DAY) for node in nodes(world)}
    # Of another authority, too: it was replaced before the operator went.
    ended_then[nodes(world)[0]] = certificate(nodes(world)[0], left=-DAY, issuer="another authority")

    action = certified(planned(world, agent_certificates=held(world, ended_then)))

    assert action is not None
    assert set(action.requests) == set(nodes(world))


def test_an_operator_that_died_in_the_midst_of_signing_goes_on_and_takes_nothing_before_it_has_looked() -> (
    None
):
    world = running()
    # It had given the rights, and not yet the certificates; or those of one node.
    action = certified(planned(world))
    assert action is not None
    assert set(action.requests) == set(nodes(world))
    first, *others = nodes(world)
    partly = replace(held(world), held={first: certificate(first)})
    action = certified(planned(world, agent_certificates=partly))
    assert action is not None
    assert (set(action.requests), action.keep) == (set(others), (first,))

    # Its first pass may come before its first look at the Leases: nobody loses anything by that.
    made = planned(world, agents={}, unknown=frozenset({"leases"}), agent_certificates=held(world))
    assert (certified(made), altered(made), withdrawn(made)) == (None, {}, [])


def test_agents_are_replaced_one_after_the_other() -> None:
    """From one key for all: whose agent asks has a certificate at once; the others keep what they have until the last one asks."""
    world = running()
    asking: dict[str, Agent] = {node: Agent(age=1.0) for node in nodes(world)}
    have: dict[str, Any] = {**rights(world), LEGACY: RIGHTS}
    signed: dict[str, Certificate] = {}
    for node in nodes(world):
        there = replace(held(world), held=dict(signed)) if signed else None
        made = planned(world, agents=asking, have=have, former_agents=former(), agent_certificates=there)
        assert certified(made) is None
        assert (altered(made), withdrawn(made)) == ({}, [])
        asking[node] = agents(world)[node]
        made = planned(world, agents=asking, have=have, former_agents=former(), agent_certificates=there)
        action = certified(made)
        assert action is not None
        assert set(action.requests) == {node}
        signed[node] = certificate(node)
    there = replace(held(world), held=dict(signed))
    made = planned(world, agents=asking, have=have, former_agents=former(), agent_certificates=there)
    assert certified(made) is None
    assert altered(made) == {LEGACY: (set(), set(RIGHTS))}
    assert withdrawn(made) == [("Secret", NAME, "s-1", "agents")]


def test_a_certificate_whose_agent_is_away_stays_for_its_time_and_no_longer() -> None:
    world = running()
    first, *others = nodes(world)
    away = agents(world)
    del away[first]

    def kept(odd: Certificate, **seen: Any) -> bool:
        made = planned(world, agents=away, agent_certificates=held(world, {first: odd}), **seen)
        action = certified(made)
        assert action is None or set(action.keep) == set(others)
        return action is None

    assert kept(certificate(first, left=1.0))
    assert not kept(certificate(first, left=-1.0))
    # It would hold up the replacement of the authority for ever; unless it is only not known what its agent asks for.
    assert not kept(certificate(first, issuer="another authority"))
    assert kept(certificate(first, issuer="another authority"), unknown=frozenset({"leases"}))


def test_a_node_whose_last_broker_left_has_neither_certificate_nor_rights() -> None:
    world = running()
    gone = certificate("node9")
    left = {"spindle-agent.node9": RIGHTS}

    made = planned(world, have=rights(world) | left, agent_certificates=held(world, {"node9": gone}))

    action = certified(made)
    assert action is not None
    assert (action.requests, set(action.keep)) == ({}, set(nodes(world)))
    assert altered(made) == {"spindle-agent.node9": (set(), set(RIGHTS))}


def test_rights_are_given_before_certificates_and_again_when_somebody_took_some() -> None:
    world = running()
    first = names.agent_principal(nodes(world)[0])

    made = planned(world, have={})
    assert altered(made) == {user: (set(RIGHTS), set()) for user in rights(world)}
    kinds = [type(action) for action in made.actions]
    assert kinds.index(AlterUser) < kinds.index(CertifyAgents)

    one = min(RIGHTS)
    assert altered(planned(world, have=rights(world) | {first: RIGHTS - {one}})) == {first: ({one}, set())}
    more = replace(one, operation="All")
    assert altered(planned(world, have=rights(world) | {first: RIGHTS | {more}})) == {first: (set(), {more})}
    assert altered(planned(world, kafka=replace(world.snapshot().kafka, agents=None))) == {}


def test_agents_of_before_go_on_until_none_is_left() -> None:
    world = running()
    first, *_ = nodes(world)
    old = {"former_agents": former(), "agent_certificates": held(world)}
    here = rights(world)

    for agent in (Agent(age=1.0), Agent(unchanged=5.0)):  # alive; not heard of yet
        made = planned(world, agents=agents(world) | {first: agent}, **old)
        assert altered(made) == {LEGACY: (set(RIGHTS), set())}
        assert withdrawn(made) == []
    made = planned(world, unknown=frozenset({"leases"}), have=here | {LEGACY: RIGHTS}, **old)
    assert (altered(made), withdrawn(made)) == ({}, [])

    gone = Agent(unchanged=100.0)
    made = planned(world, agents=agents(world) | {first: gone}, have=here | {LEGACY: RIGHTS}, **old)
    assert altered(made) == {LEGACY: (set(), set(RIGHTS))}
    assert withdrawn(made) == [("Secret", NAME, "s-1", "agents")]


def test_what_is_somebody_elses_in_the_agents_namespace_is_left_alone_and_told() -> None:
    world = running()
    theirs = {"labels": {names.LABEL_CLUSTER: "demo", names.LABEL_NAMESPACE: "another"}}
    mine = held(world)
    others = replace(mine, metadata={**mine.metadata, **theirs})

    made = planned(world, agent_certificates=others, former_agents=former(**theirs))

    assert withdrawn(made) == []
    assert each_certified(made) == {}
    waits = {wait["object"]: wait for wait in made.status["waiting"]}
    assert waits.keys() == {f"ConfigMap/{map_of(node)}" for node in nodes(world)}
    for name in map(map_of, nodes(world)):
        wait = waits[f"ConfigMap/{name}"]
        assert wait["reason"] == "NameConflict"
        assert f"kubectl delete configmap {name} -n agents" in wait["unblockedBy"]


def test_without_agents_nobody_has_anything() -> None:
    world = running()
    made = planned(world, agent_namespace="", have={})
    assert certified(made) is None
    assert made.settled

    left = planned(world, agent_namespace="")
    assert altered(left) == {user: (set(), set(RIGHTS)) for user in rights(world)}


def test_certificates_that_cannot_be_read_are_not_issued_anew_and_told() -> None:
    made = planned(running(), unknown=frozenset({"agentcertificates"}))

    assert certified(made) is None
    assert [wait["reason"] for wait in made.status["waiting"]] == ["AgentCertificatesUnknown"]


def test_the_replacement_of_an_authority_waits_for_the_agents() -> None:
    world = running()
    world.cluster["spec"]["security"] = {"rotate": "now"}
    for _ in range(3):
        world.reconcile()
    (waiting,) = (
        wait
        for wait in planned(world, agent_certificates=held(world)).status["waiting"]
        if wait["reason"] == "CaReplaced"
    )
    assert map_of(nodes(world)[0]) in waiting["unblockedBy"] or "restarts" in waiting["unblockedBy"]
    action = certified(planned(world, agent_certificates=held(world)))
    assert action is not None, "it has to name both"
    assert len(action.trusted) == 2


def test_a_deleted_cluster_goes_only_after_what_the_agents_had() -> None:
    world = ended()

    there = running()
    first = planned(world, agent_certificates=held(there), former_agents=former(), agents={})
    assert withdrawn(first) == [
        *(("ConfigMap", name, "m-1", "agents") for name in sorted(set(map(map_of, nodes(there))))),
        ("Secret", NAME, "s-1", "agents"),
    ]
    assert not first.finished
    assert planned(world).finished


def test_a_deleted_cluster_waits_while_it_is_not_known_whether_something_is_left() -> None:
    made = planned(ended(), unknown=frozenset({"agentcertificates"}))

    assert not made.finished
    assert [wait["reason"] for wait in made.status["waiting"]] == ["AgentCertificatesUnknown"]


def test_a_certificate_leaves_the_configmap_of_all_nodes_when_its_agent_has_one_in_its_part() -> None:
    """From the version before: whatever is replaced first, each agent has a certificate where it looks for it, and nothing is left in the end."""
    world = running()
    READS.parts = False
    (former_map,) = maps(held(world)).values()
    asking, parts = agents(world), dict[str, AgentCertificates]()

    def step() -> tuple[dict[str, CertifyAgents], list[str]]:
        made = planned(
            world, agents=asking, agent_certificates={**parts, **({NAME: former_map} if former_map else {})}
        )
        return each_certified(made), [name for _, name, _, _ in withdrawn(made)]

    assert step() == ({}, []), "the agents are of the version before"
    first, *others = nodes(world)
    left = list(nodes(world))
    made, gone = step()
    for node in (first, *others):
        READS.parts = True
        asking[node] = replace(agents(world)[node], request=Request("new pem", f"new key of {node}"))
        name = map_of(node)
        made, gone = step()
        assert set(made) == {name}
        assert (made[name].requests, made[name].keep) == ({node: "new pem"}, ())
        assert gone == [], "what it had stays until the part has been seen with its certificate"
        (parts[name],) = maps(
            replace(former_map, held={node: certificate(node, key=f"new key of {node}")})
        ).values()
        made, gone = step()
        left.remove(node)
        if left:
            assert ({n: a.keep for n, a in made.items()}, gone) == ({NAME: tuple(left)}, [])
            former_map = replace(former_map, held={each: former_map.held[each] for each in left})
    assert (made, gone) == ({}, [NAME])
    # Where an old agent is back, so is what it reads.
    asking[first] = replace(asking[first], reads_parts=False)
    former_map = None  # type: ignore[assignment]
    made, gone = step()
    assert ({name: set(each.requests) for name, each in made.items()}, gone) == ({NAME: {first}}, [])


def test_an_agent_that_is_not_heard_of_keeps_what_it_may_read() -> None:
    world = running()
    READS.parts = False
    (former_map,) = maps(held(world)).values()
    first, *_ = nodes(world)
    READS.parts = True
    heard = agents(world)
    del heard[first]
    there = {**maps(held(world)), NAME: former_map}
    del there[map_of(first)]
    made = planned(world, agents=heard, agent_certificates=there)
    assert {name: each.keep for name, each in each_certified(made).items()} == {NAME: (first,)}
    assert withdrawn(made) == []
    made = planned(world, agents={}, unknown=frozenset({"leases"}), agent_certificates=there)
    assert (each_certified(made), withdrawn(made)) == ({}, [])


def test_a_principal_is_as_short_as_a_certificate_takes_it() -> None:
    assert names.agent_principal("node1") == "spindle-agent.node1"
    assert names.agent_principal("n" * 50) == "spindle-agent." + "n" * 50
    long = names.agent_principal("n" * 51)
    assert (len(long) <= 64, long.startswith("spindle-agent-")) == (True, True)
    assert long != names.agent_principal("n" * 52)


def healthy(made: ReconcilePlan) -> str:
    (found,) = [c for c in made.status["conditions"] if c["type"] == "DisksHealthy"]
    assert found["status"] == "True"
    return str(found["message"]).removeprefix("All 6 disks are log dirs in use.").strip()


def test_it_is_said_whether_anybody_watches_the_disks() -> None:
    world = running()
    alive = agents(world, age=10.0, unchanged=10.0, ahead=0.0)

    assert healthy(planned(world, agents=alive)) == ""
    assert healthy(planned(world, agent_namespace="")).startswith("No agents are installed:")
    unread = healthy(planned(world, unknown=frozenset({"leases"})))
    assert unread == "It is not known whether agents watch the disks: their Leases cannot be read."
    silent = {**alive, nodes(world)[0]: Agent(age=31.0, unchanged=31.0)}
    silent.pop(nodes(world)[1])
    assert f"No agent watches the disks of {nodes(world)[0]}, {nodes(world)[1]};" in healthy(
        planned(world, agents=silent)
    )

    unheard = dict.fromkeys(nodes(world), Agent(unchanged=7.0))
    assert healthy(planned(world, agents=unheard)).startswith("The agents of ")

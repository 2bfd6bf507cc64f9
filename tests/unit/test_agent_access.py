"""The agents: their certificate comes and goes with a KafkaCluster, and it is said where they are missing."""

from dataclasses import replace
from typing import Any

from spindle.cluster import names
from spindle.disks.agents import Agent
from spindle.reconcile.actions import Delete, IssueCertificate
from spindle.reconcile.plan import Plan, plan
from spindle.reconcile.snapshot import Certificate, SecretView
from tests.model.store import START
from tests.model.world import World

NAME = "kafka.demo.spindle-agent"
LABELS = {names.LABEL_CLUSTER: "demo", names.LABEL_NAMESPACE: "kafka"}


def running() -> World:
    world = World.of()
    world.settle()
    return world


def held(issuer: str = "ca", *, left: float = 1e8) -> SecretView:
    certificate = Certificate(names.PRINCIPAL_AGENT, (), issuer, "f", START + left, START + left - 1.2e8)
    return SecretView(
        {"name": NAME, "uid": "s-1", "labels": LABELS},
        ("ca.crt", "keystore.pem", "tls.crt", "tls.key"),
        certificate,
        ("ca",),
    )


def planned(world: World, **seen: Any) -> Plan:
    return plan(replace(world.snapshot(), **{"agent_namespace": "agents", **seen}), START)


def issued(made: Plan) -> list[IssueCertificate]:
    return [action for action in made.actions if isinstance(action, IssueCertificate)]


def ended() -> World:
    """A KafkaCluster of which nothing is left but what was never its own."""
    world = running()
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(10):
        if world.reconcile().finished:
            return world
        world.breathe()
    raise AssertionError("it does not end")


def test_the_agents_get_a_certificate_of_their_own_in_their_namespace() -> None:
    (action,) = issued(planned(running()))

    assert action.common_name == "spindle-agent"
    meta = action.metadata
    namespace = running().cluster["metadata"]["namespace"]
    assert (meta["name"], meta["namespace"]) == (f"{namespace}.demo.spindle-agent", "agents")
    assert "ownerReferences" not in meta, "an owner in another namespace counts as gone"
    assert meta["labels"]["spindle.dev/cluster"] == "demo"
    assert meta["labels"]["spindle.dev/namespace"] == namespace
    assert meta["labels"]["app.kubernetes.io/managed-by"] == "spindle"


def test_it_is_renewed_as_the_others_are() -> None:
    world = running()

    assert issued(planned(world, agent_secret=held())) == []
    assert len(issued(planned(world, agent_secret=held(issuer="another authority")))) == 1
    assert len(issued(planned(world, agent_secret=held(left=10 * 24 * 3600)))) == 1


def test_without_agents_there_is_neither_certificate_nor_wait() -> None:
    world = running()
    made = planned(world, agent_namespace="")

    assert issued(made) == []
    assert made.settled


def test_a_secret_that_cannot_be_read_is_not_issued_anew_and_told() -> None:
    made = planned(running(), unknown=frozenset({"agentsecrets"}))

    assert issued(made) == []
    assert [wait["reason"] for wait in made.status["waiting"]] == ["AgentSecretUnknown"]


def test_a_deleted_cluster_goes_only_after_the_agents_secret() -> None:
    world = ended()

    first = planned(world, agent_secret=held())
    (withdrawn,) = first.actions
    assert isinstance(withdrawn, Delete)
    assert (withdrawn.kind, withdrawn.name, withdrawn.uid) == ("Secret", NAME, "s-1")
    assert withdrawn.namespace == "agents"
    assert not first.finished
    assert planned(world).finished


def test_a_deleted_cluster_waits_while_it_is_not_known_whether_the_secret_is_left() -> None:
    made = planned(ended(), unknown=frozenset({"agentsecrets"}))

    assert not made.finished
    assert [wait["reason"] for wait in made.status["waiting"]] == ["AgentSecretUnknown"]


def healthy(made: Plan) -> str:
    (found,) = [c for c in made.status["conditions"] if c["type"] == "DisksHealthy"]
    assert found["status"] == "True"
    return str(found["message"]).removeprefix("All 6 disks are log dirs in use.").strip()


def test_it_is_said_whether_anybody_watches_the_disks() -> None:
    world = running()
    nodes = sorted(broker["spec"]["node"] for broker in world.all("KafkaBroker"))
    alive = dict.fromkeys(nodes, Agent(age=10.0, unchanged=10.0, ahead=0.0))

    assert healthy(planned(world, agents=alive)) == ""
    assert healthy(planned(world, agent_namespace="")).startswith("There are no agents:")
    assert (
        healthy(planned(world, unknown=frozenset({"leases"}))) == "It is not known whether agents watch them."
    )
    silent = {**alive, nodes[0]: Agent(age=31.0, unchanged=31.0)}
    silent.pop(nodes[1])
    assert f"No agent watches the disks of {nodes[0]}, {nodes[1]};" in healthy(planned(world, agents=silent))

    unheard = dict.fromkeys(nodes, Agent(unchanged=7.0))
    assert healthy(planned(world, agents=unheard)).startswith("The agents of ")

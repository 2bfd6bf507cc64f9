import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest

from spindle.api import names
from spindle.model.view import KafkaView
from spindle_agent.broker import keys
from spindle_operator import ca
from spindle_operator.agents import AgentMonitor
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_BROKER
from spindle_operator.observe import Surroundings, access, belongs, observe, secret_view
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube, cluster


def claim(name: str, label: str | None = None) -> dict[str, Any]:
    labels = {} if label is None else {"spindle.dev/cluster": label}
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}}


@pytest.mark.parametrize(
    ("obj", "mine"),
    [
        pytest.param(claim("data-disk0-demo-3", "demo"), True, id="labelled"),
        pytest.param(claim("data-disk0-demo-3"), True, id="label lost"),
        pytest.param(claim("data-metadata-demo-9000"), True, id="a controller's"),
        pytest.param(claim("data-disk0-demo-3", "other"), False, id="labelled as another's"),
        pytest.param(claim("data-disk0-x-demo-3"), False, id="another cluster's whose name ends alike"),
        pytest.param(claim("data-disk0-demo-x-3"), False, id="another cluster's whose name starts alike"),
        pytest.param(claim("data-disk0-demo"), False, id="no node id"),
    ],
)
def test_whose_claim(obj: Any, mine: bool) -> None:
    assert belongs(obj, "demo") is mine


def pod(node: str, *, role: str = "broker", state: str = "running") -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"demo-broker-{node}",
            "labels": {"spindle.dev/role": role, "spindle.dev/node-id": node},
        },
        "status": {"containerStatuses": [{"name": "kafka", "state": {state: {}}}]},
    }


def secret(**data: str) -> dict[str, Any]:
    encoded = {
        key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
    }
    return {"metadata": {"name": "demo-operator"}, "data": encoded}


WHOLE = secret(ca_crt="CA", tls_crt="CERT", tls_key="KEY")


def test_access_names_the_brokers_that_run() -> None:
    pods = [pod("2"), pod("0"), pod("1", state="waiting"), pod("9000", role="controller")]
    found = access("demo", "ns", pods, [WHOLE])
    assert isinstance(found, Access)
    assert found.hosts == {0: "demo-broker-0.demo-brokers.ns.svc", 2: "demo-broker-2.demo-brokers.ns.svc"}


@pytest.mark.parametrize(
    ("pods", "secrets", "known", "why"),
    [
        pytest.param([], [WHOLE], True, "no broker runs yet", id="no pods"),
        pytest.param([pod("0")], [], True, "no certificate", id="no secret"),
        pytest.param(
            [pod("0")], [secret(ca_crt="CA", tls_crt="")], True, "no certificate", id="half a secret"
        ),
        pytest.param([], [WHOLE], False, "could not be read", id="pods unknown"),
    ],
)
def test_why_kafka_is_not_asked(pods: Any, secrets: Any, known: bool, why: str) -> None:
    assert why in str(access("demo", "ns", pods, secrets, known=known))


def test_a_secret_is_seen_without_its_secrets() -> None:
    view = secret_view(secret(tls_key="KEY", tls_crt="no certificate"))
    assert view.keys == ("tls.crt", "tls.key")
    assert view.certificate is None
    assert "KEY" not in repr(view)


class Gate(KafkaExecutor):
    def __init__(self) -> None:
        self.given: Any = None
        self.asked: bool | None = None

    async def look(
        self,
        access: Any,
        *,
        ask_rights: bool = False,
        asked: Sequence[str] = (),
        agents: bool = True,
        managed: Any = None,
        replaced: Any = (),
    ) -> Any:
        self.given, self.asked = access, ask_rights
        return KafkaView(), None


async def test_what_cannot_be_read_is_unknown_and_stops_nothing_else() -> None:
    kube = FakeKube()
    kube.failures = {
        ("list", "nodes"): ApiError(403, "Forbidden", "no"),
        ("list", "pods"): ApiError(500, "", "x"),
    }
    kube.objects["/api/v1/namespaces/ns/persistentvolumeclaims/c"] = claim("data-disk0-demo-3")
    gate = Gate()
    seen = await observe(kube, cluster(), gate, Surroundings("image"))
    assert seen.snapshot.unknown == {"nodes", "pods"}
    assert len(seen.snapshot.claims) == 1
    assert gate.given == "the pods could not be read"


async def test_each_look_has_fresh_entropy() -> None:
    looks = [await observe(FakeKube(), cluster(), Gate(), Surroundings("image")) for _ in range(2)]
    assert looks[0].snapshot.entropy != looks[1].snapshot.entropy
    assert len(looks[0].snapshot.entropy) == 32


def lease(node: str, renewed: str | None) -> dict[str, Any]:
    return {"metadata": {"name": f"spindle-agent-{node}"}, "spec": {"renewTime": renewed}}


async def test_agents_are_seen_by_their_leases_and_by_the_certificates_of_this_cluster() -> None:
    kube = FakeKube()
    key = keys.parse(keys.make("node1"))
    authority = ca.make_ca("a")
    signed = ca.grant(authority, key.request, "spindle-agent.node1", 7)
    leases, core = (f"{group}/namespaces/agents" for group in ("/apis/coordination.k8s.io/v1", "/api/v1"))
    kube.objects = {
        f"{leases}/leases/1": lease("node1", "2026-01-01T00:00:01.500000Z"),
        f"{leases}/leases/2": lease("node2", None),
        f"{leases}/leases/3": lease("node3", "yesterday"),
        f"{leases}/leases/4": {"metadata": {"name": "other"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}},
        f"{core}/secrets/ns.demo.spindle-agent": {"metadata": {"name": "x", "uid": "s-1"}},
        f"{core}/configmaps/ns.demo.spindle-agent": {
            "metadata": {"name": "ns.demo.spindle-agent"},
            "data": {"CA.crt": authority.cert.decode(), "node1": signed.decode(), "node2": "nonsense"},
        },
    }

    snapshot = (
        await observe(kube, cluster(), Gate(), Surroundings("image", watch=AgentMonitor(kube, "agents")))
    ).snapshot

    (seen,) = snapshot.agents.items()
    assert (seen[0], seen[1].alive, seen[1].silent) == ("node1", False, False)
    assert snapshot.agent_namespace == "agents"
    assert snapshot.former_agents is not None
    assert snapshot.former_agents.metadata["uid"] == "s-1"
    ((name, there),) = snapshot.agent_certificates.items()
    assert (name, there.trust) == ("ns.demo.spindle-agent", ca.fingerprints(authority.cert))
    ((node, certificate),) = there.held.items()
    assert (node, certificate.common_name) == ("node1", "spindle-agent.node1")
    assert certificate.key == sha256(key.public).hexdigest()
    assert certificate.issuer == there.trust[0]
    assert snapshot.unknown == set()


async def test_parts_of_certificates_are_read_where_brokers_are_and_what_is_left_once() -> None:
    kube = FakeKube()
    watch = AgentMonitor(kube, "agents")
    needed, left = names.agent_part("ns", "demo", "node1"), names.agent_part("ns", "demo", "node2")
    assert needed != left
    core = "/api/v1/namespaces/agents/configmaps"
    kube.objects[f"{core}/{left}"] = {"metadata": {"name": left}, "data": {}}
    broker = {
        "metadata": {"name": "demo-0", "labels": {names.LABEL_CLUSTER: "demo"}},
        "spec": {"cluster": "demo", "node": "node1"},
    }
    kube.objects[KAFKA_BROKER.path("ns", "demo-0")] = broker

    async def read(of: dict[str, Any] | None = None) -> tuple[set[str], set[str]]:
        kube.calls.clear()
        snapshot = (await observe(kube, of or cluster(), Gate(), Surroundings("image", watch=watch))).snapshot
        whole = names.agent_certificates("ns", "demo")
        asked = {name for name in kube.done("find") if name.startswith(f"{whole}.")}
        return asked, set(snapshot.agent_certificates)

    assert await read() == (set(names.agent_parts("ns", "demo")), {left})
    assert await read() == ({needed, left}, {left})
    kube.objects[f"{core}/{needed}"] = {"metadata": {"name": needed}, "data": {}}
    del kube.objects[f"{core}/{left}"]
    assert await read() == ({needed, left}, {needed})
    # Its last broker has left the node.
    del kube.objects[KAFKA_BROKER.path("ns", "demo-0")]
    assert await read() == ({needed}, {needed})
    del kube.objects[f"{core}/{needed}"]
    assert await read() == ({needed}, set())
    assert await read() == (set(), set())
    going = cluster()
    going["metadata"]["deletionTimestamp"] = "now"
    assert await read(going) == (set(names.agent_parts("ns", "demo")), set())


async def test_the_secret_of_former_agents_is_looked_for_until_it_is_gone() -> None:
    kube = FakeKube()
    path = "/api/v1/namespaces/agents/secrets/ns.demo.spindle-agent"
    watch = AgentMonitor(kube, "agents")
    kube.objects[path] = {"metadata": {"name": "ns.demo.spindle-agent", "uid": "s-1"}}
    for there in (True, True, False, False):
        if not there:
            kube.objects.pop(path, None)
        snapshot = (await observe(kube, cluster(), Gate(), Surroundings("image", watch=watch))).snapshot
        assert (snapshot.former_agents is not None) is there
    # Each look asks for the ConfigMap of the certificates, and the first three for the Secret, which has the same name.
    assert kube.done("find").count("ns.demo.spindle-agent") == 4 + 3
    kube.failures = {("find", "ns.demo.spindle-agent"): ApiError(403, "Forbidden", "no")}
    other = AgentMonitor(kube, "agents")
    await observe(kube, cluster(), Gate(), Surroundings("image", watch=other))
    assert not other.secrets_gone, "what cannot be read is not gone"


async def test_without_agents_nobody_asks_for_them() -> None:
    kube = FakeKube()
    snapshot = (await observe(kube, cluster(), Gate(), Surroundings("image"))).snapshot
    assert "leases" not in kube.done("list")
    assert (snapshot.agents, snapshot.agent_namespace, snapshot.former_agents) == ({}, "", None)


async def test_agents_that_cannot_be_looked_at_are_unknown() -> None:
    kube = FakeKube()
    no = ApiError(403, "Forbidden", "no")
    kube.failures = {("list", "leases"): no, ("find", "ns.demo.spindle-agent"): no}
    seen = await observe(kube, cluster(), Gate(), Surroundings("image", watch=AgentMonitor(kube, "agents")))
    assert seen.snapshot.unknown == {"leases", "agentcertificates"}


@pytest.mark.parametrize(
    ("annotations", "asked"),
    [
        pytest.param({}, True, id="not noted yet"),
        pytest.param({"spindle.dev/acls": "granted"}, False, id="settled for good"),
    ],
)
async def test_the_admins_rights_are_asked_for_until_they_are_noted(
    annotations: dict[str, str], asked: bool
) -> None:
    kube, gate = FakeKube(), Gate()
    kube.objects["/api/v1/namespaces/ns/secrets/demo-admin"] = {
        "metadata": {"name": "demo-admin", "annotations": annotations}
    }
    await observe(kube, cluster(), gate, Surroundings("image"))
    assert gate.asked is asked

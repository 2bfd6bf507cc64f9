"""What an agent may write, asked of a real API server with the tokens that agents have: bound to a pod on a node."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from e2e.cluster.apiserver import ApiServer, free_ports
from e2e.cluster.build import ensure_helm
from e2e.cluster.waiting import wait_for
from spindle.api import names
from spindle.api.names import API_VERSION
from spindle_operator import ca
from tests.kube.api import Resources, refusal
from tests.kube.conftest import ROOT
from tests.kube.operator_process import until
from tests.kube.samples import broker

pytestmark = pytest.mark.kube

AGENTS = "spindle-agents"
HERE, ELSEWHERE, NOWHERE = "demo-broker-0", "demo-broker-1", "demo-broker-2"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server with the chart installed, and three brokers: on node1, on node2, and on none yet."""
    with ApiServer() as fresh:
        command = [str(ensure_helm()), "install", "spindle", str(ROOT / "charts/spindle")]
        environment = {**os.environ, "KUBECONFIG": str(fresh.kubeconfig)}
        place = ("--namespace=system", "--create-namespace", "--set=watch.all=true")
        subprocess.run([*command, *place], env=environment, check=True, capture_output=True)
        fresh.wait_established("crd/kafkabrokers.spindle.dev")
        for index, node in enumerate(("node1", "node2", None)):
            made = broker()
            made["metadata"]["name"] = f"demo-broker-{index}"
            made["spec"] |= {"id": index} | ({"node": node} if node else {})
            fresh.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(made))
        for index in range(3):
            operator = report(f"demo-broker-{index}", state="Running", disksSummary="2/2")
            where = ("--subresource=status", "--field-manager=spindle-operator", "--filename=-")
            fresh.kubectl("apply", "--server-side", *where, stdin=json.dumps(operator))
        for node in ("node1", "node2"):
            fresh.kubectl("create", "--filename=-", stdin=json.dumps(agent_pod(node)))
        yield fresh


def agent_pod(node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"agent-{node}", "namespace": AGENTS},
        "spec": {
            "serviceAccountName": "spindle-agent",
            "nodeName": node,
            "containers": [{"name": "agent", "image": "spindle:1"}],
        },
    }


def report(name: str, **status: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KafkaBroker", "metadata": {"name": name}, "status": status}


def observed(node: str = "node1", verdict: str = "Healthy") -> dict[str, Any]:
    return {"node": node, "disks": [{"name": "disk0", "verdict": verdict}]}


def configuration(server: ApiServer) -> client.Configuration:
    """The way to the server, without anybody's credentials."""
    made = client.Configuration()
    config.load_kube_config(str(server.kubeconfig), client_configuration=made)
    made.cert_file = made.key_file = None
    return made


def token(server: ApiServer, *binding: str) -> str:
    """A token of the agents' account."""
    return server.kubectl("create", "token", "spindle-agent", "--namespace", AGENTS, *binding).strip()


def connect(server: ApiServer, *binding: str) -> client.ApiClient:
    made = configuration(server)
    made.api_key = {"authorization": f"Bearer {token(server, *binding)}"}
    return client.ApiClient(made)


BOUND = ("--bound-object-kind=Pod", "--bound-object-name=agent-node1")


@pytest.fixture(scope="module")
def agent(server: ApiServer) -> Iterator[client.ApiClient]:
    """The agent on node1."""
    with connect(server, *BOUND) as api:
        yield api


@pytest.fixture(scope="module")
def unbound(server: ApiServer) -> Iterator[client.ApiClient]:
    """Somebody who has a token of the same account that was given to no pod."""
    with connect(server) as api:
        yield api


@pytest.fixture
def powerful(server: ApiServer) -> Iterator[None]:
    """Roles that somebody gave the agents by mistake: the policy holds by itself."""
    role = "--clusterrole=cluster-admin"
    server.kubectl(
        "create", "clusterrolebinding", "mistake", role, f"--serviceaccount={AGENTS}:spindle-agent"
    )
    ask = (
        "auth",
        "can-i",
        "delete",
        "kafkabrokers",
        "--namespace=default",
        f"--as=system:serviceaccount:{AGENTS}:spindle-agent",
    )
    wait_for("the rights", lambda: server.kubectl(*ask, check=False).strip() == "yes", seconds=30)
    yield
    server.kubectl("delete", "clusterrolebinding", "mistake")


def refused(api: client.ApiClient, thing: dict[str, Any]) -> str:
    with pytest.raises(ApiException) as caught:
        Resources(api, "default").report(thing, names.FIELD_MANAGER_AGENT)
    said = refusal(caught.value)
    assert said.code == 403
    return said.message


def test_an_agent_reports_on_the_brokers_of_its_node(agent: client.ApiClient, server: ApiServer) -> None:
    brokers = Resources(agent, "default")

    def say(verdict: str) -> dict[str, Any]:
        made = brokers.report(report(HERE, observed=observed(verdict=verdict)), names.FIELD_MANAGER_AGENT)
        assert made["status"]["observed"]["disks"][0]["verdict"] == verdict
        return dict(made["status"])

    say("Healthy")
    said = say("Failed")
    assert (said["state"], said["disksSummary"]) == ("Running", "2/2")

    where = ("--subresource=status", "--field-manager=spindle-operator", "--filename=-", "--output=json")
    own = json.dumps(report(HERE, state="Running", disksSummary="1/2"))
    after = json.loads(server.kubectl("apply", "--server-side", *where, stdin=own))["status"]
    assert after["observed"] == said["observed"], "what the operator leaves out is not its own"

    made = brokers.report(report(HERE), names.FIELD_MANAGER_AGENT)
    assert "observed" not in made["status"], "what it said it may take back"


@pytest.mark.parametrize(
    ("name", "place"),
    [pytest.param(ELSEWHERE, "node2", id="another node"), pytest.param(NOWHERE, "no node yet")],
)
def test_it_does_not_speak_for_other_nodes(agent: client.ApiClient, name: str, place: str) -> None:
    said = refused(agent, report(name, observed=observed()))

    assert (
        f"the agent on node node1 may report only on brokers of that node, and {name} is on {place}" in said
    )


@pytest.mark.parametrize(
    ("status", "named"),
    [
        pytest.param({"state": "Stopped"}, "status.state", id="changed"),
        pytest.param({"fullest": "99%"}, "status.fullest", id="added"),
        pytest.param({"disks": [{"name": "disk0", "state": "Active"}]}, "status.disks", id="a list"),
        pytest.param({"message": "x", "state": "y"}, "status.message", id="two"),
    ],
)
def test_what_the_operator_says_is_not_its_to_change(
    agent: client.ApiClient, status: dict[str, Any], named: str
) -> None:
    said = refused(agent, report(HERE, observed=observed(), **status))

    why, _, fields = said.partition("this would change ")
    assert "an agent may write only status.observed; " in why
    assert named in fields.split(", ")


def test_nor_to_take_away(agent: client.ApiClient) -> None:
    objects: Any = client.CustomObjectsApi(agent)
    with pytest.raises(ApiException) as caught:
        objects.patch_namespaced_custom_object_status(
            "spindle.dev",
            "v1alpha1",
            "default",
            "kafkabrokers",
            HERE,
            {"status": {"disksSummary": None}},
            _content_type="application/merge-patch+json",
        )

    assert "this would change status.disksSummary" in refusal(caught.value).message


def test_the_spec_is_not_even_in_its_role(agent: client.ApiClient) -> None:
    with pytest.raises(ApiException) as caught:
        Resources(agent, "default").apply(broker(), names.FIELD_MANAGER_AGENT, force=True)

    assert 'cannot patch resource "kafkabrokers"' in refusal(caught.value).message


@pytest.mark.usefixtures("powerful")
def test_with_every_right_it_still_changes_no_spec_and_deletes_nothing(agent: client.ApiClient) -> None:
    brokers = Resources(agent, "default")
    objects: Any = client.CustomObjectsApi(agent)
    stopped = report(HERE) | {"spec": {"maintenance": {"stopped": True}}}
    stopped.pop("status")
    another = broker()
    another["metadata"]["name"] = "demo-broker-9"

    for attempt in (
        lambda: brokers.apply(stopped, names.FIELD_MANAGER_AGENT),
        lambda: brokers.create(another),
        lambda: objects.delete_namespaced_custom_object(
            "spindle.dev", "v1alpha1", "default", "kafkabrokers", HERE
        ),
    ):
        with pytest.raises(ApiException) as caught:
            attempt()
        assert "an agent may write only status.observed of a KafkaBroker" in refusal(caught.value).message


def test_a_token_that_was_given_to_no_node_may_report_on_none(unbound: client.ApiClient) -> None:
    assert "the agent's token names no node" in refused(unbound, report(HERE, observed=observed()))


def test_others_are_not_meant(server: ApiServer) -> None:
    where = ("--subresource=status", "--field-manager=spindle-operator", "--filename=-")
    text = json.dumps(report(ELSEWHERE, state="Stopped", disksSummary="2/2"))

    server.kubectl("apply", "--server-side", *where, stdin=text)


def test_the_largest_status_is_compared_within_the_budget(server: ApiServer, agent: client.ApiClient) -> None:
    disks = [
        {
            "name": f"disk{i}",
            "logDir": f"/var/lib/kafka/disks/disk{i}/log",
            "state": "Active",
            "message": "m" * 200,
        }
        for i in range(64)
    ]
    moves = [
        {"topic": "t" * 100, "partition": i, "fromDir": "/a" * 50, "toDir": "/b" * 50, "state": "Queued"}
        for i in range(2000)
    ]
    where = ("--subresource=status", "--field-manager=spindle-operator", "--filename=-")
    large = json.dumps(report(HERE, state="Running", disksSummary="64/64", disks=disks))
    server.kubectl("apply", "--server-side", *where, stdin=large)

    made = Resources(agent, "default").report(
        report(HERE, observed={**observed(), "moves": moves}), names.FIELD_MANAGER_AGENT
    )

    assert len(made["status"]["observed"]["moves"]) == 2000
    assert "status.disks" in refused(agent, report(HERE, disks=[{"name": "disk7", "state": "Failed"}]))


def renew(api: client.ApiClient, node: str) -> str:
    """Renew a lease as agents do; returns why not."""
    name = names.agent_lease(node)
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": node, "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    }
    try:
        client.CoordinationV1Api(api).patch_namespaced_lease(
            name,
            AGENTS,
            body,
            field_manager=names.FIELD_MANAGER_AGENT,
            force=True,
            _content_type="application/apply-patch+yaml",
        )
    except ApiException as error:
        return refusal(error).message
    return ""


def test_an_agent_keeps_only_its_own_lease(agent: client.ApiClient, unbound: client.ApiClient) -> None:
    for _ in range(2):
        assert renew(agent, "node1") == ""

    mine = "the agent on node node1 may write only the Lease spindle-agent-node1"
    assert mine in renew(agent, "node2")
    assert "the token names no node" in renew(unbound, "node1")


def test_nobody_writes_an_agents_lease_in_its_place_whatever_rights_they_have(
    server: ApiServer, agent: client.ApiClient
) -> None:
    assert renew(agent, "node1") == ""

    with config.new_client_from_config(config_file=str(server.kubeconfig)) as admin:
        for node in ("node1", "node3"):  # one that is there, and one that is not
            said = renew(admin, node)
            assert f"only the agent on its node may write the Lease spindle-agent-{node}" in said
        leases = client.CoordinationV1Api(admin)
        for change in ({"metadata": {"annotations": {"a": "b"}}}, {"spec": {"holderIdentity": "me"}}):
            with pytest.raises(ApiException) as caught:
                leases.patch_namespaced_lease("spindle-agent-node1", AGENTS, change)
            assert "only the agent on its node may write the Lease" in refusal(caught.value).message

        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        other: Any = {**lease, "metadata": {"name": "another"}}
        leases.create_namespaced_lease(AGENTS, other)
        elsewhere: Any = {**lease, "metadata": {"name": "spindle-agent-node1"}}
        leases.create_namespaced_lease("default", elsewhere)  # of another installation, perhaps
        leases.delete_namespaced_lease("spindle-agent-node1", AGENTS)
    assert renew(agent, "node1") == "", "what was deleted its agent makes again"


def test_it_reads_no_secret_anywhere(server: ApiServer, agent: client.ApiClient) -> None:
    core = client.CoreV1Api(agent)
    name = names.agent_certificates("default", "demo")
    server.kubectl("create", "secret", "generic", name, "--namespace", AGENTS)

    for namespace, secret in ((AGENTS, name), ("default", "demo-operator"), ("system", "demo-operator")):
        for attempt in (
            lambda: core.read_namespaced_secret(secret, namespace),  # noqa: B023 - called right here
            lambda: core.list_namespaced_secret(namespace),  # noqa: B023 - as above
        ):
            with pytest.raises(ApiException) as caught:
                attempt()
            assert caught.value.status == 403


@pytest.mark.usefixtures("powerful")
def test_the_operator_alone_says_whom_agents_trust_whatever_rights_others_have(
    server: ApiServer, agent: client.ApiClient
) -> None:
    def made(name: str) -> Any:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"CA.crt": "x"}}

    ours = made(names.agent_part("default", "demo", "node1"))
    operator = ("--as=system:serviceaccount:system:spindle", "--namespace", AGENTS)
    server.kubectl("apply", "--server-side", "--filename=-", *operator, stdin=json.dumps(ours))
    with config.new_client_from_config(config_file=str(server.kubeconfig)) as admin:
        for api in (agent, admin):
            maps = client.CoreV1Api(api)
            other = made(names.agent_part("default", "other", "node1"))
            former = made(names.agent_certificates("default", "other"))
            for attempt in (
                lambda: maps.create_namespaced_config_map(AGENTS, other),  # noqa: B023 - called right here
                lambda: maps.create_namespaced_config_map(AGENTS, former),  # noqa: B023 - as above
                lambda: maps.patch_namespaced_config_map(  # noqa: B023 - as above
                    ours["metadata"]["name"], AGENTS, {"data": {"CA.crt": "y"}}
                ),
            ):
                with pytest.raises(ApiException) as caught:
                    attempt()  # type: ignore[no-untyped-call]
                assert "only the operator may write the certificates" in refusal(caught.value).message
        client.CoreV1Api(admin).create_namespaced_config_map(AGENTS, made("another"))
    assert client.CoreV1Api(agent).read_namespaced_config_map(ours["metadata"]["name"], AGENTS).data == {
        "CA.crt": "x"
    }


def test_the_agent_itself_gets_by_with_what_it_is_allowed(server: ApiServer, tmp_path: Path) -> None:
    # The paths are folders and no mounts, so the verdict is that the disks are missing.
    disks = []
    for name in ("disk0", "disk1"):
        (tmp_path / name).mkdir()
        disks.append({"name": name, "path": str(tmp_path / name)})
    where = ("--subresource=status", "--field-manager=spindle-operator", "--filename=-")
    told = report(HERE, state="Running", disksSummary="2/2", disks=disks)
    server.kubectl("apply", "--server-side", *where, stdin=json.dumps(told))
    (port,) = free_ports(1)
    (tmp_path / "token").write_text(token(server, *BOUND))
    command = [sys.executable, "-m", "spindle_agent.main", "--node=node1", f"--own-namespace={AGENTS}"]
    command += [f"--disk-root={tmp_path}", f"--api-server={server.url}", f"--port={port}"]
    command += [f"--token-file={tmp_path / 'token'}", f"--ca-file={configuration(server).ssl_ca_cert}"]

    def status() -> dict[str, Any]:
        found = server.kubectl("get", "kafkabroker", HERE, "--output=json")
        return dict(json.loads(found)["status"])

    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(
            "its report",
            lambda: (
                [disk["verdict"] for disk in status().get("observed", {}).get("disks", ())]
                == ["Missing", "Missing"]
            ),
            detail=(tmp_path / "log").read_text,
        )
        assert status()["observed"]["node"] == "node1"
        assert status()["disksSummary"] == "2/2"
        lease = server.kubectl("get", "lease", "spindle-agent-node1", "--namespace", AGENTS, "--output=json")
        request = json.loads(lease)["metadata"]["annotations"]["spindle.dev/signing-request"].encode()
        assert ca.read_request(request, "spindle-agent.node1").pem.encode() == request
        assert datetime.fromisoformat(json.loads(lease)["spec"]["renewTime"]) > datetime(
            2026, 1, 1, tzinfo=UTC
        )
    finally:
        process.terminate()
        process.wait(10)
    assert "forbidden" not in (tmp_path / "log").read_text().lower()

"""The agents' certificates with a real API server: they come into their namespace, stay or go, and go with their KafkaCluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.manifests.secrets import agent_metadata, secret_metadata
from spindle.model.actions import CertifyAgents, IssueCa
from spindle_agent.broker import keys
from spindle_operator import ca
from spindle_operator.act import DONE, FAILED, TAKEN
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube


async def test_certificates_are_signed_kept_and_left_out(
    api_server: ApiServer, cluster: dict[str, Any], act: Callable[..., Any]
) -> None:
    namespace = cluster["metadata"]["namespace"]
    agents = f"{namespace}-agents"
    api_server.kubectl("create", "namespace", agents)
    mine = {node: keys.parse(keys.make(node)) for node in ("node1", "node2")}

    def certify(*sign: str, keep: tuple[str, ...] = (), seen: Any = None) -> CertifyAgents:
        requests = {node: mine[node].request.decode() for node in sign}
        metadata = agent_metadata(cluster, agents, f"{namespace}.demo.spindle-agent.c")
        return CertifyAgents(metadata=metadata, requests=requests, keep=keep, days=7, trusted=(), seen=seen)

    def found() -> dict[str, Any]:
        name = f"{namespace}.demo.spindle-agent.c"
        return dict(json.loads(api_server.kubectl("-n", agents, "get", "configmap", name, "-o", "json")))

    def there() -> dict[str, str]:
        return dict(found()["data"])

    authority = IssueCa(secret="demo-ca", metadata=secret_metadata(cluster, "demo-ca"))  # noqa: S106 - a name
    assert await act(authority, certify("node1", "node2")) == [DONE, DONE]
    first = there()
    assert set(first) == {"CA.crt", "node1", "node2"}
    for node, key in mine.items():
        assert key.fits(first[node])
        said = ca.describe(first[node].encode(), first["CA.crt"].encode())
        assert (said.common_name, said.issuer) == (
            f"spindle-agent.{node}",
            ca.fingerprints(first["CA.crt"].encode())[0],
        )

    seen = found()["metadata"]
    assert await act(certify("node2", keep=("node1",), seen=seen)) == [DONE]
    assert there()["node1"] == first["node1"]
    assert there()["node2"] != first["node2"]
    assert await act(certify(keep=("node1",), seen=found()["metadata"])) == [DONE]
    assert set(there()) == {"CA.crt", "node1"}

    # Another one than the pass looked at, or one where it saw none: no look says that it is ours.
    before = found()
    assert await act(certify("node2", seen={**seen, "uid": "another"})) == [FAILED]
    assert found() == before
    theirs = {"labels": {"spindle.dev/cluster": None}}
    api_server.kubectl(
        *("-n", agents, "patch", "configmap", before["metadata"]["name"]),
        *("--type=merge", f"--patch={json.dumps({'metadata': theirs})}"),
    )
    before = found()
    assert await act(certify("node2")) == [TAKEN]
    assert found() == before


def test_what_agents_had_goes_with_its_cluster_and_their_secret_of_before_at_once(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    agents = f"{namespace}-agents"
    name = f"{namespace}.demo.spindle-agent"
    api_server.kubectl("create", "namespace", agents)
    api_server.kubectl("-n", agents, "create", "secret", "generic", name)
    whose = ("spindle.dev/cluster=demo", f"spindle.dev/namespace={namespace}")
    api_server.kubectl("-n", agents, "label", "secret", name, *whose)
    maps = (name, f"{name}.7")  # as of the version before, and of a part

    def leave_maps() -> None:
        for each in maps:
            api_server.kubectl("-n", agents, "create", "configmap", each, "--from-literal=node9=left")
            api_server.kubectl("-n", agents, "label", "configmap", each, *whose)

    leave_maps()
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(sample_cluster()))

    def left(kind: str, *which: str) -> str:
        return api_server.kubectl("-n", agents, "get", kind, *which, "--ignore-not-found", "-o", "name")

    with OperatorProcess(
        api_server.kubeconfig, namespace, tmp_path, f"--agent-namespace={agents}", "--resync=1"
    ) as operator:
        until("the Secret is gone", lambda: not left("secret", name), detail=lambda: operator.log)
        until("what nobody reads is gone", lambda: not left("configmap", *maps), 40, lambda: operator.log)

        leave_maps()
        api_server.kubectl("-n", namespace, "delete", "skc", "demo", "--wait=false")
        gone = ("-n", namespace, "get", "skc", "demo", "--ignore-not-found", "-o", "name")
        until("the cluster is gone", lambda: not api_server.kubectl(*gone), 40, lambda: operator.log)
        assert left("configmap", *maps) == ""
        assert "ERROR" not in operator.log

"""The agents' certificate with a real API server: it comes into their namespace, heals, and goes with its KafkaCluster."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from e2e.cluster.apiserver import ApiServer
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube


def test_the_agents_certificate_lives_as_long_as_its_cluster(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    agents = f"{namespace}-agents"
    name = f"{namespace}.demo.spindle-agent"
    api_server.kubectl("create", "namespace", agents)
    api_server.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(cluster()))

    def secret() -> dict[str, Any]:
        text = api_server.kubectl("-n", agents, "get", "secret", name, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text else {}

    with OperatorProcess(
        api_server.kubeconfig, namespace, tmp_path, f"--agent-namespace={agents}", "--resync=1"
    ) as operator:
        until("the Secret", secret, detail=lambda: operator.log)
        made = secret()
        subject = x509.load_pem_x509_certificate(base64.b64decode(made["data"]["tls.crt"])).subject
        assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "spindle-agent"
        assert {"ca.crt", "tls.crt", "tls.key"} <= set(made["data"])
        assert made["metadata"]["labels"]["spindle.dev/cluster"] == "demo"
        assert made["metadata"]["labels"]["spindle.dev/namespace"] == namespace
        assert "ownerReferences" not in made["metadata"]

        api_server.kubectl("-n", agents, "delete", "secret", name)
        until("it is issued again", secret, detail=lambda: operator.log)

        api_server.kubectl("-n", namespace, "delete", "kc", "demo", "--wait=false")
        gone = ("-n", namespace, "get", "kc", "demo", "--ignore-not-found", "-o", "name")
        until("the cluster is gone", lambda: not api_server.kubectl(*gone), 40, lambda: operator.log)
        assert secret() == {}
        assert "ERROR" not in operator.log

"""Who may make KafkaUsers gives them nothing that reaches beyond a tenant's own: the label for that is an administrator's."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer, KubectlError
from e2e.cluster.build import ensure_helm
from spindle.api import names
from tests.kube.conftest import ROOT

pytestmark = pytest.mark.kube

TENANT = ("--as=tenant", "--namespace=default")
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "tenant"},
    "rules": [
        {
            "apiGroups": [names.GROUP],
            "resources": ["kafkausers"],
            "verbs": ["get", "create", "update", "patch", "delete"],
        }
    ],
}


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    """With the chart's policy, and a tenant who may write KafkaUsers."""
    command = [str(ensure_helm()), "template", "spindle", str(ROOT / "charts/spindle"), "--namespace=system"]
    policy = subprocess.run(
        [*command, "--show-only=templates/user-policy.yaml"], check=True, capture_output=True, text=True
    ).stdout
    api_server.kubectl("apply", "--filename=-", stdin=policy)
    api_server.kubectl("apply", "--filename=-", stdin=json.dumps(ROLE))
    binding = ("clusterrolebinding", "tenant", "--clusterrole=tenant", "--user=tenant")
    api_server.kubectl("create", *binding)
    yield api_server
    api_server.kubectl("delete", "--filename=-", stdin=policy)


def user(name: str, *, privileged: bool, **spec: Any) -> str:
    labels = {names.LABEL_PRIVILEGED: "true"} if privileged else {}
    return json.dumps(
        {
            "apiVersion": names.API_VERSION,
            "kind": "KafkaUser",
            "metadata": {"name": name, "labels": labels},
            "spec": {"cluster": "demo", **spec},
        }
    )


def refused(server: ApiServer, *arguments: str, stdin: str | None = None) -> None:
    with pytest.raises(KubectlError, match="ask an administrator"):
        server.kubectl(*arguments, *TENANT, stdin=stdin)


def test_a_tenant_makes_users_without_the_label_only(server: ApiServer) -> None:
    # A policy that was just made is in force a moment later.
    for _ in range(100):
        try:
            server.kubectl(
                "create", "--filename=-", *TENANT, "--dry-run=server", stdin=user("early", privileged=True)
            )
        except KubectlError:
            break
    refused(server, "create", "--filename=-", stdin=user("wide", privileged=True))
    server.kubectl("create", "--filename=-", *TENANT, stdin=user("plain", privileged=False))
    server.kubectl("patch", "sku", "plain", *TENANT, "--type=merge", '-p={"spec":{"acls":[]}}')
    refused(server, "label", "sku", "plain", f"{names.LABEL_PRIVILEGED}=true")


def test_a_tenant_changes_none_that_has_it_and_may_delete_it(server: ApiServer) -> None:
    server.kubectl("create", "--filename=-", "--namespace=default", stdin=user("given", privileged=True))
    refused(server, "patch", "sku", "given", "--type=merge", '-p={"spec":{"quotas":{"requestPercentage":1}}}')
    refused(server, "label", "sku", "given", f"{names.LABEL_PRIVILEGED}-")
    server.kubectl("annotate", "sku", "given", *TENANT, "note=1")
    server.kubectl("delete", "sku", "given", *TENANT)

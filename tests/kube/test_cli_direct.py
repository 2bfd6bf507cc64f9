"""What is read without the Kubernetes client is what that client reads, from a real API server."""

import pytest
from kubernetes import client

from e2e.cluster.apiserver import ApiServer
from spindle_cli.kube import Kube, KubeError, NotFoundError
from tests.kube.api import Resources
from tests.kube.samples import broker, cluster

pytestmark = pytest.mark.kube


def test_both_readers_give_the_same(
    api_server: ApiServer, api_client: client.ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = Resources(api_client, namespace)
    resources.create(cluster())
    resources.create(broker())
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    plain, usual = Kube.connect(namespace), Kube(api_client, namespace)
    assert plain._reader is not None

    assert plain.view("demo") == usual.view("demo")
    assert [each["metadata"]["name"] for each in plain.raw_clusters()] == ["demo"]
    assert plain.one_cluster(None) == "demo"
    said = []
    for kube in (plain, usual):
        with pytest.raises(NotFoundError) as refused:
            kube.raw("KafkaCluster", "other")
        said.append(str(refused.value))
        with pytest.raises(KubeError) as failed:
            kube.pods("no selector!")
        said.append(str(failed.value))
    assert said[:2] == said[2:]


def test_what_is_written_goes_to_the_same_server(
    api_server: ApiServer, api_client: client.ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Resources(api_client, namespace).create(broker())
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    kube = Kube.connect(namespace)
    body = {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaBroker",
        "metadata": {"name": "demo-broker-0"},
        "spec": {"maintenance": {"stopped": True}},
    }

    kube.apply(body, "spindle-cli-stopped")

    assert kube.raw("KafkaBroker", "demo-broker-0")["spec"]["maintenance"]["stopped"] is True

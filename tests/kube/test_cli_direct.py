"""What is read without the Kubernetes client is what that client reads, from a real API server."""

import pytest
from kubernetes import client

from e2e.cluster.apiserver import ApiServer
from spindle_cli import helper_pod
from spindle_cli.kube import ConflictError, Kube, KubeError, NotFoundError
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


def test_a_pod_is_created_and_deleted_as_by_the_client(
    api_server: ApiServer, api_client: client.ApiClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    manifest = helper_pod.manifest("x", "demo", "demo:9092", "spindle:9", ["status"], 80)
    said = []
    for kube in (Kube.connect(namespace), Kube(api_client, namespace)):
        kube.create_pod(manifest)
        assert kube.pod("x")["spec"]["containers"][0]["args"] == ["status"]
        with pytest.raises(ConflictError) as taken:
            kube.create_pod(manifest)
        assert list(kube.log("x")) == []  # it runs nowhere
        with pytest.raises(NotFoundError) as none:
            list(kube.log("other"))
        kube.delete_pod("x")
        kube.delete_pod("x")
        with pytest.raises(NotFoundError) as gone:
            kube.pod("x")
        said.append([str(each.value) for each in (taken, none, gone)])
    assert said[0] == said[1]

"""The commands' requests against a real API server: they merge, leave others' fields, and refuse what an API server refuses."""

import json
from typing import Any

import pytest
from kubernetes import client

from spindle_cli.field_requests import FieldRequest, withdraw_entry, write
from spindle_cli.kube import Kube, KubeError
from tests.kube.api import Resources
from tests.kube.samples import broker as sample_broker
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube

NAME = "demo-broker-0"
PATH = ("maintenance", "disks")


@pytest.fixture
def kube(api_client: client.ApiClient, namespace: str) -> Kube:
    """The command line's client, in a namespace with one broker."""
    Resources(api_client, namespace).create(sample_broker())
    return Kube(api_client, namespace)


def ask(disk: str, state: str) -> FieldRequest:
    entry = {"name": disk, "desiredState": state}
    return FieldRequest("KafkaBroker", NAME, disk, {"maintenance": {"disks": [entry]}})


def uid(kube: Kube) -> str:
    return str(kube.raw("KafkaBroker", NAME)["metadata"]["uid"])


def wanted(kube: Kube) -> dict[str, str]:
    entries = (kube.raw("KafkaBroker", NAME)["spec"].get("maintenance") or {}).get("disks") or ()
    return {each["name"]: each["desiredState"] for each in entries}


def test_requests_for_two_disks_merge_and_each_is_withdrawn_by_itself(kube: Kube) -> None:
    write(kube, ask("disk0", "Drained"), uid(kube), force=False)
    write(kube, ask("disk1", "Cordoned"), uid(kube), force=False)
    write(
        kube,
        FieldRequest("KafkaBroker", NAME, "stopped", {"maintenance": {"stopped": True}}),
        uid(kube),
        force=False,
    )
    assert wanted(kube) == {"disk0": "Drained", "disk1": "Cordoned"}

    write(kube, ask("disk1", "Drained"), uid(kube), force=False)
    gone = FieldRequest("KafkaBroker", NAME, "disk0", {})
    assert withdraw_entry(kube, gone, (*PATH, "disk0"), force=False)

    assert wanted(kube) == {"disk1": "Drained"}
    assert kube.broker(NAME).spec.maintenance.stopped  # type: ignore[union-attr]
    assert not withdraw_entry(kube, gone, (*PATH, "disk0"), force=False)


@pytest.mark.parametrize(("manager", "left"), [("kubectl-patch", False), ("argocd-controller", True)])
def test_a_request_of_a_person_is_replaced_and_that_of_a_tool_is_not(
    kube: Kube, manager: str, left: bool
) -> None:
    body = {"spec": {"maintenance": {"disks": [{"name": "disk0", "desiredState": "Cordoned"}]}}}
    place: tuple[Any, ...] = ("spindle.dev", "v1alpha1", kube.namespace, "kafkabrokers", NAME)
    objects: Any = client.CustomObjectsApi(kube.api)
    objects.patch_namespaced_custom_object(
        *place, body, field_manager=manager, _content_type="application/merge-patch+json"
    )
    gone = FieldRequest("KafkaBroker", NAME, "disk0", {})

    if left:
        with pytest.raises(KubeError, match="argocd-controller owns these fields"):
            write(kube, ask("disk0", "Drained"), uid(kube), force=False)
        with pytest.raises(KubeError, match="argocd-controller owns it"):
            withdraw_entry(kube, gone, (*PATH, "disk0"), force=False)
        assert wanted(kube) == {"disk0": "Cordoned"}
    assert withdraw_entry(kube, gone, (*PATH, "disk0"), force=left)
    assert wanted(kube) == {}
    write(kube, ask("disk0", "Drained"), uid(kube), force=False)
    assert wanted(kube) == {"disk0": "Drained"}


def test_a_request_creates_nothing_under_the_name_of_a_deleted_object(kube: Kube) -> None:
    with pytest.raises(KubeError, match="run the command again"):
        write(kube, ask("disk0", "Drained"), "00000000-0000-0000-0000-000000000000", force=False)
    with pytest.raises(KubeError):
        write(kube, FieldRequest("KafkaCluster", "demo", "paused", {"paused": True}), uid(kube), force=False)
    assert kube.clusters() == []
    assert wanted(kube) == {}


def test_a_paused_cluster_keeps_its_spec(api_client: client.ApiClient, kube: Kube) -> None:
    made = Resources(api_client, kube.namespace).apply(sample_cluster(), "argocd-controller")

    for what, fields in (("paused", {"paused": True}), ("restart", {"rolling": {"restart": "now"}})):
        write(kube, FieldRequest("KafkaCluster", "demo", what, fields), made["metadata"]["uid"], force=False)

    after = kube.cluster("demo").spec
    assert (after.paused, after.rolling.restart) == (True, "now")
    assert after.broker_pools == kube.cluster("demo").parse(made).spec.broker_pools


def applied_by(kube: Kube, manager: str, **spec: Any) -> str:
    """Create the sample as `kubectl apply` does, which owns all defaults; its uid."""
    sample = sample_cluster()
    sample["spec"] |= spec
    said = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(sample)}
    sample["metadata"]["annotations"] = said
    place: tuple[Any, ...] = ("spindle.dev", "v1alpha1", kube.namespace, "kafkaclusters")
    objects: Any = client.CustomObjectsApi(kube.api)
    made = objects.create_namespaced_custom_object(*place, sample, field_manager=manager)
    return str(made["metadata"]["uid"])


def test_a_default_that_an_apply_owns_is_not_its_own(kube: Kube) -> None:
    made = applied_by(kube, "kubectl-client-side-apply")
    write(kube, FieldRequest("KafkaCluster", "demo", "paused", {"paused": True}), made, force=False)
    assert kube.cluster("demo").spec.paused


def test_what_an_apply_sets_stays(kube: Kube) -> None:
    made = applied_by(kube, "kubectl-client-side-apply", paused=False)
    paused = FieldRequest("KafkaCluster", "demo", "paused", {"paused": True})
    with pytest.raises(KubeError, match="kubectl-client-side-apply owns these fields"):
        write(kube, paused, made, force=False)
    assert not kube.cluster("demo").spec.paused
    write(kube, paused, made, force=True)
    assert kube.cluster("demo").spec.paused


def test_the_token_of_a_loss_has_the_form_that_the_field_asks_for(kube: Kube) -> None:
    def loss(token: str) -> FieldRequest:
        entry = {"name": "disk0", "token": token}
        return FieldRequest("KafkaBroker", NAME, "loss-of-disk0", {"acceptDataLoss": {"disks": [entry]}})

    with pytest.raises(KubeError, match="copy it from the message"):
        write(kube, loss("yes"), uid(kube), force=False)
    write(kube, loss("A" * 22 + ":5f0c3a9e81d24b67"), uid(kube), force=False)
    found = kube.broker(NAME).spec.accept_data_loss
    assert found is not None
    assert found.disks[0].token.endswith("5f0c3a9e81d24b67")

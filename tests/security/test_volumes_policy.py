"""What the operator may do to PersistentVolumes, which have no namespace: asked of a real API server in its name."""

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer, KubectlError
from e2e.cluster.build import ensure_helm
from tests.kube.conftest import ROOT
from tests.kube.operator_process import until
from tests.kube.samples import volume

pytestmark = pytest.mark.kube

NARROW, WIDE = "system:serviceaccount:narrow:spindle", "system:serviceaccount:wide:spindle"
_numbers = itertools.count()
UID = "3f0f4f3e-5a0e-4a4e-9d7e-0c5a5f7d1b11"
HELD = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "others", "name": "theirs"}
OURS = {**HELD, "namespace": "one", "name": "data-disk1-demo-0"}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """An API server with two operators: one for namespace one alone, one for all."""
    with ApiServer() as fresh:
        fresh.kubectl("create", "namespace", "one")
        for release, more in (("narrow", "watch.namespaces={one}"), ("wide", "crds.install=false")):
            install(fresh, release, more)
        for account in (NARROW, WIDE):
            until("its policy", lambda account=account: guarded(fresh, account))  # type: ignore[misc]
        yield fresh


def install(server: ApiServer, namespace: str, more: str) -> None:
    command = [
        str(ensure_helm()),
        "install",
        "spindle",
        str(ROOT / "charts/spindle"),
        "--namespace",
        namespace,
    ]
    settings = ["--set", "agent.enabled=false", "--set", more]
    values = yaml.safe_load((ROOT / "charts/spindle/values.yaml").read_text())
    if namespace == "wide" and "all" in values["watch"]:
        settings += ["--set", "watch.all=true"]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    subprocess.run(
        [*command, "--create-namespace", *settings], env=environment, check=True, capture_output=True
    )


def guarded(server: ApiServer, account: str) -> bool:
    """Whether the policy has come into force, which takes a moment."""
    why = change(server, account, make(server), {"metadata": {"labels": {"a": "b"}}}, "--dry-run=server")
    return "may change only spec.claimRef" in why


def make(server: ApiServer, phase: str = "", **spec: Any) -> str:
    """A new volume, by somebody who may: nobody here takes a finalizer off, so none is made anew under its name."""
    name = f"pv-{next(_numbers)}"
    made = volume(name, hostPath={"path": "/mnt/disks/a"}, storageClassName="local-disks", **spec)
    server.kubectl("create", "--filename=-", stdin=json.dumps(made))
    if phase:
        told = json.dumps({"status": {"phase": phase}})
        server.kubectl("patch", "pv", name, "--subresource=status", "--type=merge", "--patch", told)
    return name


def change(server: ApiServer, account: str, name: str, body: dict[str, Any], *more: str) -> str:
    """Patch a volume as the operator does; why not, or nothing."""
    try:
        server.kubectl(
            "patch", "pv", name, "--type=merge", "--patch", json.dumps(body), "--as", account, *more
        )
    except KubectlError as error:
        return str(error)
    return ""


def refer(claim: dict[str, str] | None) -> dict[str, Any]:
    return {"spec": {"claimRef": claim}}


both = pytest.mark.parametrize("account", [NARROW, WIDE], ids=["narrow", "wide"])


@both
def test_it_does_what_it_is_there_for(server: ApiServer, account: str) -> None:
    free = make(server)
    assert change(server, account, free, refer(OURS)) == ""
    assert change(server, account, free, refer(None)) == "", "no claim has it yet"
    assert change(server, account, free, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}) == ""
    left = make(server, phase="Released", claimRef={**OURS, "uid": UID})
    assert change(server, account, left, refer(None)) == "", "no claim has it any more"


@both
@pytest.mark.parametrize(
    "to",
    [
        pytest.param({"namespace": "one", "name": "data-disk1-demo-0", "uid": None}, id="another claim"),
        pytest.param({"uid": None}, id="another claim of that name"),
        pytest.param({"uid": UID.replace("3", "4")}, id="another uid"),
    ],
)
def test_a_volume_that_somebody_has_is_not_pointed_to_another_claim(
    server: ApiServer, account: str, to: dict[str, str | None]
) -> None:
    theirs = make(server, phase="Bound", claimRef={**HELD, "uid": UID})
    said = change(server, account, theirs, {"spec": {"claimRef": to}})
    assert "may set spec.claimRef only if it is not set" in said


@both
def test_nor_is_it_taken_from_a_claim_that_has_it(server: ApiServer, account: str) -> None:
    bound = make(server, phase="Bound", claimRef={**OURS, "uid": UID})
    said = change(server, account, bound, refer(None))
    assert "claim one/data-disk1-demo-0 is bound to this volume" in said


def test_in_namespaces_that_it_does_not_look_after_it_gives_and_takes_nothing(server: ApiServer) -> None:
    for name, body in ((make(server, claimRef=HELD), refer(None)), (make(server), refer(HELD))):
        assert "namespace others is not managed by this operator (one)" in change(server, NARROW, name, body)
        assert change(server, WIDE, name, body) == ""


@both
@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param({"spec": {"storageClassName": "fast"}}, "spec.storageClassName", id="its class"),
        pytest.param({"spec": {"capacity": {"storage": "9Gi"}}}, "spec.capacity", id="its size"),
        pytest.param({"spec": {"mountOptions": ["suid"]}}, "spec.mountOptions", id="added"),
        pytest.param({"spec": {"storageClassName": None}}, "spec.storageClassName", id="taken away"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "metadata.labels", id="labels"),
        pytest.param({"metadata": {"finalizers": ["example.org/a"]}}, "metadata.finalizers", id="finalizers"),
    ],
)
def test_nothing_else_of_a_volume_changes(
    server: ApiServer, account: str, body: dict[str, Any], named: str
) -> None:
    said = change(server, account, make(server), body)
    _, _, fields = said.partition("this would change ")
    assert named in fields


@both
def test_where_it_is_nobody_changes(server: ApiServer, account: str) -> None:
    assert "immutable" in change(server, account, make(server), {"spec": {"hostPath": {"path": "/etc"}}})


@both
@pytest.mark.parametrize("policy", ["Delete", "Recycle"])
def test_a_volume_that_is_retained_stays_so(server: ApiServer, account: str, policy: str) -> None:
    safe = make(server, persistentVolumeReclaimPolicy="Retain")
    said = change(server, account, safe, {"spec": {"persistentVolumeReclaimPolicy": policy}})
    assert "may set spec.persistentVolumeReclaimPolicy only to Retain" in said


def test_others_are_not_meant(server: ApiServer) -> None:
    server.kubectl("label", "pv", make(server), "a=b")

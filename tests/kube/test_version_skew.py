"""Operator and CustomResourceDefinitions of this version and of the version before it, mixed, on a real API server.

A whole upgrade, with agents and a running Kafka, is ``e2e/scenarios/test_operator_upgrade.py``.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import versions
from e2e.cluster.apiserver import ApiServer
from tests.kube.operator_process import OperatorProcess, until
from tests.kube.samples import cluster

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "shared", "operator")
WHERE = "import spindle, spindle_operator, spindle_shared as s; print(spindle.__path__[0], spindle_operator.__path__[0], s.__path__[0])"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout of the version before this one."""
    commit = versions.SPINDLE_BEFORE
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the checkout has no commit {commit}")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server without definitions."""
    with ApiServer() as running:
        yield running


def define(server: ApiServer, version: Path) -> None:
    folder = str(version / "crds")
    server.kubectl("apply", "--server-side", "--force-conflicts", "-f", folder)
    server.wait_established("-f", folder)


def read(server: ApiServer, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.kubectl("get", *what, "-o", "json"))
    return found


def status(server: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = read(server, "skc", "demo").get("status") or {}
    return found


def identity(server: ApiServer) -> tuple[Any, ...]:
    """What may not change, whichever operator runs: the cluster id, and the certificate authority."""
    return status(server)["clusterId"], read(server, "secret", "demo-ca")["data"]


def reconcile(server: ApiServer, operator: OperatorProcess, *, paused: bool) -> dict[str, Any]:
    """Change the spec, and wait until the operator says that it has taken it; returns the status."""
    server.kubectl("patch", "skc", "demo", "--type=merge", "-p", json.dumps({"spec": {"paused": paused}}))

    def taken() -> bool:
        found = status(server)
        reasons = {each["type"]: each["reason"] for each in found.get("conditions", ())}
        return reasons.get("Reconciling") in ({"Paused"} if paused else {"Starting", "Working"})

    until(f"paused is {paused}", taken, 90, lambda: operator.log)
    assert "Traceback" not in operator.log
    return status(server)


def waits(found: dict[str, Any]) -> set[str]:
    return {each["reason"] for each in found["waiting"]}


def test_a_new_operator_manages_with_definitions_of_the_version_before(
    server: ApiServer, before: Path, tmp_path: Path
) -> None:
    define(server, before)
    server.kubectl("apply", "-f", "-", stdin=json.dumps(cluster()))
    new_kinds = {file.name for file in (ROOT / "crds").iterdir()} - {
        file.name for file in (before / "crds").iterdir()
    }

    with OperatorProcess(server.kubeconfig, "default", tmp_path, "--resync=2") as operator:
        until("a certificate", lambda: "certificate demo-admin" in operator.log, 90, lambda: operator.log)
        reconcile(server, operator, paused=True)
        found = reconcile(server, operator, paused=False)
        # It says that a kind is missing, and manages the rest.
        assert ("TopicsUnknown" in waits(found)) is ("kafkatopics.yaml" in new_kinds)
        known = identity(server)
        define(server, ROOT)
        until(
            "all kinds are read",
            lambda: "TopicsUnknown" not in waits(status(server)),
            90,
            lambda: operator.log,
        )
        assert identity(server) == known


def test_an_operator_of_the_version_before_manages_with_new_definitions_and_after_a_new_one(
    server: ApiServer, before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(server, before)
    server.kubectl("apply", "-f", "-", stdin=json.dumps(cluster()))
    path = os.pathsep.join(str(before / each) for each in PACKAGES)

    def run(name: str) -> OperatorProcess:
        return OperatorProcess(server.kubeconfig, "default", tmp_path, "--resync=2", name=name)

    monkeypatch.setenv("PYTHONPATH", path)
    where = subprocess.check_output([sys.executable, "-c", WHERE], text=True).split()
    assert all(each.startswith(f"{before}/") for each in where)
    with run("old") as operator:
        until("a certificate", lambda: "certificate demo-admin" in operator.log, 90, lambda: operator.log)
        known = identity(server)
        define(server, ROOT)
        reconcile(server, operator, paused=True)
        reconcile(server, operator, paused=False)
        operator.stop(signal.SIGTERM)
    monkeypatch.delenv("PYTHONPATH")
    with run("new") as operator:
        reconcile(server, operator, paused=True)
        reconcile(server, operator, paused=False)
        operator.stop(signal.SIGTERM)
    # Back to the version before, as with `helm rollback`.
    monkeypatch.setenv("PYTHONPATH", path)
    with run("old-again") as operator:
        reconcile(server, operator, paused=True)
        reconcile(server, operator, paused=False)
    assert identity(server) == known


def test_the_version_before_is_another_one(before: Path) -> None:
    """Otherwise the tests above mix nothing."""
    mine = Path("operator/spindle_operator/loop.py"), Path("crds/kafkaclusters.yaml")
    assert any((before / file).read_text() != (ROOT / file).read_text() for file in mine)

"""cert-manager issues a cluster's CA and renews it while Kafka serves. Its own controllers run next to the cluster."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster.build import ensure_cert_manager
from e2e.cluster.procs import spawn
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.lab import CLUSTER, Lab, sample
from e2e.scenarios.test_listeners import secret

pytestmark = pytest.mark.e2e

_TURN: Final = 1500.0  # three rolling restarts of six pods, and clientGraceSeconds twice, on a small machine
_ISSUER: Final = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Issuer",
    "metadata": {"name": "selfsigned"},
    "spec": {"selfSigned": {}},
}
_CERTIFICATE: Final = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Certificate",
    "metadata": {"name": "kafka-ca"},
    "spec": {
        "isCA": True,
        "commonName": "kafka/demo",
        "secretName": "kafka-ca",
        "secretTemplate": {"labels": {"spindle.dev/usable-by": CLUSTER}},
        "duration": "8760h",
        "renewBefore": "720h",
        "privateKey": {"algorithm": "RSA", "size": 2048, "rotationPolicy": "Always"},
        "issuerRef": {"name": "selfsigned"},
    },
}


@pytest.fixture
def cert_manager(installed: Target, lab: Lab, tmp_path: Path) -> Iterator[None]:
    """cert-manager with its CRDs."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    folder = ensure_cert_manager()
    lab.kubectl("apply", "--server-side", "-f", str(folder / "crds"))
    lab.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(folder / "crds"))
    process = spawn(
        [folder / "cert-manager", installed.kubeconfig], tmp_path / "cert-manager.log", dies_with_us=True
    )
    try:
        yield
    finally:
        process.stop(grace=30)
        lab.kubectl("delete", "--wait=false", "-f", str(folder / "crds"))


def held(lab: Lab, name: str, key: str) -> str:
    """A certificate in a Secret."""
    return secret(lab, name)[key].strip()


def renew(lab: Lab) -> None:
    """Renew it like ``cmctl renew``."""
    status: dict[str, Any] = lab.the("certificates.cert-manager.io", "kafka-ca")["status"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "by hand",
        "lastTransitionTime": now,
    }
    others = [each for each in status.get("conditions", ()) if each["type"] != "Issuing"]
    lab.apply_status("certificates.cert-manager.io", "kafka-ca", {"conditions": [*others, wanted]})


@pytest.mark.usefixtures("cert_manager")
def test_an_authority_of_cert_managers_signs_and_its_renewal_is_followed(lab: Lab) -> None:
    security = {"caSecret": "kafka-ca", "clientGraceSeconds": 120}
    lab.apply(sample(security=security))
    lab.until_waiting("SpecNotAllowed")  # the Secret does not exist yet, so it has no label
    assert not lab.list("pods", "spindle.dev/role")
    lab.apply(_ISSUER, _CERTIFICATE)
    lab.until("cert-manager has issued it", lambda: held(lab, "kafka-ca", "tls.crt"), 90)
    lab.until_ready()
    first = held(lab, "kafka-ca", "tls.crt")
    assert first
    for name in (f"{CLUSTER}-ca", f"{CLUSTER}-admin", f"{CLUSTER}-broker-0-tls"):
        assert held(lab, name, "ca.crt") == first

    renew(lab)
    lab.until("cert-manager has renewed it", lambda: held(lab, "kafka-ca", "tls.crt") != first, 90)
    second = held(lab, "kafka-ca", "tls.crt")
    lab.until_waiting("CaReplaced", 150)
    lab.until("only it is trusted", lambda: held(lab, f"{CLUSTER}-broker-0-tls", "ca.crt") == second, _TURN)
    lab.until_ready(600)
    assert held(lab, f"{CLUSTER}-ca", "ca.crt") == second
    assert held(lab, f"{CLUSTER}-admin", "ca.crt") == second
    lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER, timeout=600)

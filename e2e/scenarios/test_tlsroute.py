"""Clients outside Kubernetes, through a Gateway that a real Traefik serves: before the Gateway API is there, while Traefik refuses, and under load."""

import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509

from e2e.cluster.build import ensure_gateway_api
from e2e.cluster.layout import CONTROL_ADDRESS
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.cluster.traefik import CONTROLLER, PORT, traefik
from e2e.scenarios.install import namespace
from e2e.scenarios.lab import CLUSTER, Lab, light, sample
from e2e.scenarios.load import Outside, Topic, load
from e2e.scenarios.stand import Stand
from e2e.scenarios.test_listeners import secret, starts
from spindle.api import names

pytestmark = pytest.mark.e2e

_GATEWAYS: Final = "gateways"  # namespace of the Gateway
_NAME: Final = "outside"
_BROKERS: Final = tuple(f"broker-{number}.kafka.example.com" for number in range(3))
_BOOTSTRAP: Final = "kafka.example.com"
_HOSTS: Final = (*_BROKERS, _BOOTSTRAP)
_LISTENER: Final = {
    "name": _NAME,
    "port": 9097,
    "type": "tlsroute",
    "auth": "mtls",
    "parentRefs": [{"name": "kafka", "namespace": _GATEWAYS, "sectionName": "kafka"}],
    "advertisedHostTemplate": "broker-{nodeId}.kafka.example.com",
    "advertisedPort": PORT,
    "bootstrap": {"host": _BOOTSTRAP},
}
_CLASS: Final = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "GatewayClass",
    "metadata": {"name": "traefik"},
    "spec": {"controllerName": CONTROLLER},
}
# In the network of Traefik: the certificate that a host presents there, as PEM, if it is valid for the host.
_PRESENTED: Final = """
import socket, ssl, sys
host, address, port, folder = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
context.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
with socket.create_connection((address, int(port)), timeout=10) as plain:
    with context.wrap_socket(plain, server_hostname=host) as secure:
        print(ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True)))
"""


def gateway(hostname: str, allowed: str) -> dict[str, Any]:
    """The Gateway: the host names of its listener, and from which namespaces it takes TLSRoutes."""
    listener = {
        "name": "kafka",
        "port": PORT,
        "protocol": "TLS",
        "tls": {"mode": "Passthrough"},
        "hostname": hostname,
        "allowedRoutes": {"kinds": [{"kind": "TLSRoute"}], "namespaces": {"from": allowed}},
    }
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "kafka"},
        "spec": {"gatewayClassName": "traefik", "listeners": [listener]},
    }


@pytest.fixture(scope="module")
def testbed(installed: Target) -> Testbed:
    """The cluster, without the Gateway API."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    installed.kubectl("delete", "--ignore-not-found", "-f", str(ensure_gateway_api()), seconds=120)
    return installed


@pytest.fixture(scope="module")
def lab(testbed: Testbed, stands: Stand) -> Iterator[Lab]:
    """A cluster of three brokers, at first without the listener."""
    stands.close()
    with namespace(testbed, "tlsroute") as lab:
        lab.apply(sample(brokerPools=[light(3)]))
        print(f"ready after {lab.until_ready(600):.0f} s")
        yield lab


@pytest.fixture(scope="module")
def gateway_api(testbed: Testbed) -> Iterator[Callable[[], None]]:
    """Installs the Gateway API; it is removed after the scenarios."""
    crds = str(ensure_gateway_api())

    def install() -> None:
        testbed.kubectl("apply", "--server-side", "-f", crds)
        testbed.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds, seconds=90)

    yield install
    testbed.kubectl("delete", "--ignore-not-found", "-f", crds, seconds=120)


@pytest.fixture(scope="module")
def gateways(
    testbed: Testbed, gateway_api: Callable[[], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """Traefik, and the namespace of the Gateway."""
    gateway_api()
    lab = Lab((str(testbed.kubectl_program()),), testbed.kubeconfig, _GATEWAYS)
    lab.kubectl("create", "namespace", _GATEWAYS)
    try:
        with traefik(testbed, tmp_path_factory.mktemp("traefik") / "traefik.log"):
            lab.apply(_CLASS)
            yield lab
    finally:
        lab.kubectl("delete", "namespace", _GATEWAYS, timeout=120)


def routes(lab: Lab) -> dict[str, dict[str, Any]]:
    """Host → its TLSRoute."""
    return {route["spec"]["hostnames"][0]: route for route in lab.list("tlsroutes.gateway.networking.k8s.io")}


def has_it(pod: dict[str, Any]) -> bool:
    """Whether a broker's pod has the listener."""
    return f"{_NAME}=tlsroute" in pod["metadata"]["annotations"].get(names.ANN_LISTENERS, "")


def running_it(lab: Lab) -> int:
    """How many brokers have the listener and are ready."""
    return sum(
        has_it(pod)
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
        for pod in lab.list("pods", "spindle.dev/role=broker")
    )


def refused(lab: Lab, reason: str) -> set[str]:
    """Wait until Spindle reports that Traefik refuses TLSRoutes for a reason; returns their names."""
    lab.until(
        f"Spindle reports {reason}",
        lambda: reason in lab.waits().get("RouteNotAccepted", {}).get("message", ""),
        180,
    )
    wait = lab.waits()["RouteNotAccepted"]
    print(wait["message"], "|", wait["unblockedBy"])
    assert f"Gateway {_GATEWAYS}/kafka, listener kafka, does not lead clients to" in wait["message"]
    return {name for name in names_of_routes() if name in wait["message"]}


def names_of_routes() -> list[str]:
    """Names of all TLSRoutes."""
    return [*(f"{CLUSTER}-broker-{number}-{_NAME}" for number in range(3)), f"{CLUSTER}-bootstrap-{_NAME}"]


def test_without_the_gateway_api_brokers_get_the_listener_and_clients_inside_go_on(
    lab: Lab, spindle_image: str
) -> None:
    with load(lab, spindle_image, Topic("inside")) as running:
        lab.patch("kafkacluster", CLUSTER, {"spec": {"listeners": [_LISTENER]}})
        wait = lab.until_waiting("GatewayApiMissing", 120)
        print(wait["message"], "|", wait["unblockedBy"])
        assert "no TLSRoute of gateway.networking.k8s.io/v1" in wait["message"]
        assert "Install the CRDs of the Gateway API, version 1.5 or later" in wait["unblockedBy"]
        lab.until("all brokers have the listener", lambda: running_it(lab) == len(_BROKERS), 600)
        lab.until_available()
        assert "GatewayApiMissing" in lab.waits()
        running.until_more()
        report = running.finish()
    print(report.summary())
    assert not report.lost


def test_routes_follow_when_the_api_is_installed_without_a_restart(
    lab: Lab, gateway_api: Callable[[], None]
) -> None:
    """It depends on the scenario before it."""
    before = starts(lab)
    gateway_api()
    took = lab.until("each host has its TLSRoute", lambda: routes(lab).keys() == set(_HOSTS), 180)
    print(f"TLSRoutes after {took:.0f} s")
    assert sorted(each["metadata"]["name"] for each in routes(lab).values()) == sorted(names_of_routes())
    wait = lab.until_waiting("RouteNotAccepted", 240)
    assert "no controller has answered for it" in wait["message"]
    assert "GatewayApiMissing" not in lab.waits()
    assert starts(lab) == before


def test_what_traefik_refuses_is_reported_until_the_gateway_is_right(lab: Lab, gateways: Lab) -> None:
    """It depends on the scenarios before it."""
    before = starts(lab)
    gateways.apply(gateway("*.kafka.example.com", "Same"))
    assert refused(lab, "NotAllowedByListeners") == set(names_of_routes())
    gateways.apply(gateway("*.kafka.example.com", "All"))
    # Its wildcard does not include the name above it.
    assert refused(lab, "NoMatchingListenerHostname") == {f"{CLUSTER}-bootstrap-{_NAME}"}
    gateways.apply(gateway("*.example.com", "All"))
    print(f"ready {lab.until_ready(180):.0f} s after the Gateway is right")
    assert "RouteNotAccepted" not in lab.waits()
    told = {each["name"]: each["bootstrap"] for each in lab.status()["listeners"]}
    assert told[_NAME] == f"{_BOOTSTRAP}:{PORT}"
    assert starts(lab) == before


@pytest.fixture
def credentials(lab: Lab, tmp_path: Path) -> Path:
    """Folder with the admin's certificate and key and the cluster's CA."""
    for key, value in secret(lab, f"{CLUSTER}-admin").items():
        (tmp_path / key).write_text(value)
    return tmp_path


def presented(testbed: Testbed, credentials: Path, host: str) -> x509.Certificate:
    """The certificate behind a host of the Gateway, verified.

    Raises:
        ssl.SSLError: there is none that is valid for the host.
    """
    command = testbed.inside(
        sys.executable, "-c", _PRESENTED, host, CONTROL_ADDRESS, str(PORT), str(credentials)
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise ssl.SSLError(done.stderr)
    return x509.load_pem_x509_certificate(done.stdout.encode())


def connected(testbed: Testbed) -> list[str]:
    """Addresses of those who are connected to Traefik's port."""
    port = f"( sport = :{PORT} )"
    command = testbed.inside("ss", "--no-header", "--numeric", "--tcp", "state", "established", port)
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    return [line.split()[-1].rpartition(":")[0] for line in said.splitlines()]


@pytest.mark.usefixtures("gateways")
def test_each_host_leads_to_its_broker_with_the_brokers_certificate(
    lab: Lab, testbed: Testbed, credentials: Path
) -> None:
    """It depends on the scenarios before it."""
    own = [
        x509.load_pem_x509_certificate(secret(lab, f"{CLUSTER}-broker-{number}-tls")["tls.crt"].encode())
        for number in range(3)
    ]
    assert [presented(testbed, credentials, host) for host in _BROKERS] == own
    assert presented(testbed, credentials, _BOOTSTRAP) in own
    with pytest.raises(ssl.SSLError):
        presented(testbed, credentials, "broker-3.kafka.example.com")


@pytest.mark.usefixtures("gateways")
def test_clients_through_the_gateway_lose_nothing_while_a_broker_restarts(
    lab: Lab, testbed: Testbed, spindle_image: str, credentials: Path
) -> None:
    """It depends on the scenarios before it."""
    outside = Outside(f"{_BOOTSTRAP}:{PORT}", CONTROL_ADDRESS, _HOSTS)
    broker = f"{CLUSTER}-broker-1"
    with load(lab, spindle_image, Topic("outside"), outside=outside) as running:
        running.until_all_writable()
        host = lab.the("pod", running.pod)["status"]["hostIP"]
        through = connected(testbed).count(host)
        print(f"{through} connections of the client to the Gateway")
        assert through >= len(_BROKERS)
        leaders = {leader for leader, _, _ in running.partitions().values()}
        assert 1 in leaders, "the client writes to the broker that restarts"
        before = lab.the("pod", broker)["metadata"]["uid"]
        lab.kubectl("delete", "pod", broker, "--wait=false")
        lab.until(
            f"{broker} has restarted",
            lambda: lab.the("pod", broker)["metadata"]["uid"] != before and running_it(lab) == len(_BROKERS),
            300,
        )
        lab.until_ready()
        running.until_all_writable()
        running.until_more()
        presented(testbed, credentials, _BROKERS[1])  # the new pod has another address
        report = running.finish()
    print(report.summary())
    assert not report.lost
    assert not [name for name, line in report.partitions.items() if line["unreadable"]]


@pytest.mark.usefixtures("gateways")
def test_the_routes_of_a_removed_listener_are_deleted_when_no_broker_runs_it(lab: Lab) -> None:
    """It depends on the scenarios before it."""
    lab.patch("kafkacluster", CLUSTER, {"spec": {"listeners": []}})

    def gone() -> bool:
        there = {each["metadata"]["name"] for each in routes(lab).values()}
        # Read afterwards: a broker that runs the listener now has run it all the time.
        pods = [pod for pod in lab.list("pods", "spindle.dev/role=broker") if has_it(pod)]
        assert {f"{pod['metadata']['name']}-{_NAME}" for pod in pods} <= there
        return not there

    lab.until("the TLSRoutes are deleted", gone, 600)
    assert running_it(lab) == 0
    lab.until_ready(300)
    assert not {s["metadata"]["name"] for s in lab.list("services")} & set(names_of_routes())

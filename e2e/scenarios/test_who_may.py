"""Access rights: every cell of the table in docs/security.md that needs a cluster is tried."""

import base64
import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from e2e.scenarios.lab import CLUSTER, Lab
from spindle_operator import ca

pytestmark = pytest.mark.e2e

_AGENT: Final = "system:serviceaccount:spindle-agents:spindle-agent"
# Sends ApiVersions to a broker or controller: every client that is let in gets an answer to that.
_PROGRAM: Final = """
import json, socket, ssl, struct, sys
def attempt(host, port, how):
    try:
        s = socket.create_connection((host, port), 8)
        s.settimeout(8)
        if how != "plain":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if how != "none":
                context.load_cert_chain(f"/etc/{how}/tls.crt", f"/etc/{how}/tls.key")
            s = context.wrap_socket(s)
        web = port == 9404
        s.sendall(b"GET /metrics HTTP/1.0\\r\\n\\r\\n" if web else struct.pack(">ihhih", 10, 18, 0, 7, -1))
        got = b""
        while len(got) < 8 and (more := s.recv(8 - len(got))):
            got += more
        # The number of the request comes back; to plain text a listener with TLS answers with an alert.
        return "let in" if got[:4] == b"HTTP" or got[4:] == struct.pack(">i", 7) else "refused"
    except TimeoutError:
        return "no way through"
    except (OSError, ssl.SSLError):
        return "refused"
print("RESULT " + json.dumps([attempt(*each) for each in json.loads(sys.argv[1])]))
"""

_BROKER, _CONTROLLER = (
    f"{CLUSTER}-broker-0.{CLUSTER}-brokers",
    f"{CLUSTER}-controller-0.{CLUSTER}-controllers",
)
_DOORS: Final = {9092: _BROKER, 9091: _BROKER, 9090: _CONTROLLER, 9404: _BROKER}
# The client's certificate, the port, and the result.
_TABLE: Final = [
    *((how, port, "refused") for how in ("none", "plain", "stranger") for port in (9092, 9091, 9090)),
    ("admin", 9092, "let in"),
    ("plain", 9404, "let in"),
]


@pytest.fixture(scope="module")
def outside(running: Lab) -> Iterator[Lab]:
    """Another namespace, with a certificate of another CA in it, and with a copy of the admin's."""
    made = Lab(running.kubectl_command, running.kubeconfig, f"{running.namespace}-strangers")
    made.kubectl("create", "namespace", made.namespace)
    stranger = ca.issue(ca.make_ca("strangers"), "admin")
    admin = running.the("secret", f"{CLUSTER}-admin")["data"]
    for name, data in (
        ("stranger", {key: base64.b64encode(stranger[key]).decode() for key in ("tls.crt", "tls.key")}),
        ("admin", {key: admin[key] for key in ("tls.crt", "tls.key")}),
    ):
        made.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})
    try:
        yield made
    finally:
        made.kubectl("delete", "namespace", made.namespace, "--wait=false")


def attempts(lab: Lab, image: str, name: str, home: str, wanted: list[tuple[str, int]]) -> list[str]:
    """Results of attempts by a pod of a namespace."""
    where = json.dumps([(f"{_DOORS[port]}.{home}.svc", port, how) for how, port in wanted])
    shown = ("stranger", "admin")
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
            "containers": [
                {
                    "name": "client",
                    "image": image,
                    "command": ["python3", "-c", _PROGRAM, where],
                    "volumeMounts": [{"name": each, "mountPath": f"/etc/{each}"} for each in shown],
                }
            ],
            "volumes": [{"name": each, "secret": {"secretName": each, "optional": True}} for each in shown],
        },
    }
    lab.apply(pod)

    def ended() -> bool:
        return lab.the("pod", name)["status"].get("phase") in ("Succeeded", "Failed")

    try:
        lab.until(f"{name} ends", ended, 200)
        found: list[str] = json.loads(lab.kubectl("logs", name).split("RESULT ", 1)[1])
        return found
    finally:
        lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")


def test_a_pod_of_another_namespace_gets_in_by_what_it_shows_alone(
    running: Lab, outside: Lab, spindle_image: str
) -> None:
    found = attempts(
        outside, spindle_image, "tries", running.namespace, [(how, port) for how, port, _ in _TABLE]
    )
    table = {(how, port): result for (how, port, _), result in zip(_TABLE, found, strict=True)}
    print(table)
    assert table == {(how, port): result for how, port, result in _TABLE}


@pytest.mark.parametrize(
    ("verb", "what", "namespace", "may"),
    [
        ("get", "secrets", "cluster", False),
        ("list", "secrets", "cluster", False),
        ("watch", "secrets", "cluster", False),
        ("get", f"secrets/{CLUSTER}-ca", "cluster", False),
        ("get", f"secrets/{CLUSTER}-admin", "cluster", False),
        ("list", "secrets", "kube-system", False),
        ("create", "pods", "cluster", False),
        ("create", "pods/exec", "cluster", False),
        ("patch", "kafkabrokers", "cluster", False),
        ("patch", "kafkaclusters", "cluster", False),
        ("get", "configmaps", "cluster", False),
        ("get", "kafkabrokers", "cluster", True),
        (
            "patch",
            "kafkabrokers/status",
            "cluster",
            True,
        ),  # its own node's: the admission policy, tests/security
        ("get", "secrets", "spindle-agents", False),
        ("get", "configmaps", "spindle-agents", True),
        ("patch", "configmaps", "spindle-agents", False),
    ],
)
def test_what_the_agents_account_may(running: Lab, verb: str, what: str, namespace: str, may: bool) -> None:
    where = running.namespace if namespace == "cluster" else namespace
    resource, _, rest = what.partition("/")
    sub = ("--subresource", rest) if resource in ("kafkabrokers", "pods") and rest else ()
    target = resource if sub or not rest else what
    answer = running.kubectl(*("auth", "can-i", verb, target, "--as", _AGENT, "-n", where, *sub), check=False)
    assert answer.strip().splitlines()[-1].startswith("yes" if may else "no"), answer


def test_a_pod_outside_the_network_policy_gets_nowhere_whether_the_network_enforces_it_or_not(
    running: Lab, outside: Lab, spindle_image: str
) -> None:
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": True}}})
    lab.until("there are policies", lambda: lab.list("networkpolicies"))
    lab.until_ready()
    wanted = [("none", 9091), ("none", 9090), ("admin", 9092), ("plain", 9404)]
    found: list[list[str]] = []

    def settled() -> bool:
        """A network that enforces policies takes a moment to apply them."""
        found.append(attempts(outside, spindle_image, f"outside{len(found)}", lab.namespace, wanted))
        return len(found) > 1 and found[-1] == found[-2]

    lab.until("the network has applied them", partial(settled), 300)
    between, clients = found[-1][:2], found[-1][2:]
    assert set(between) in ({"refused"}, {"no way through"})
    print(f"the network enforces policies: {set(between) == {'no way through'}}")
    assert clients == ["let in", "let in"]
    lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER, "--messages", "500")
    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": False}}})
    lab.until("they are gone", lambda: not lab.list("networkpolicies"))

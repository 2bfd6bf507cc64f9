"""NetworkPolicies on the testbed: nothing enforces them, unless kube-router runs; then what one allows passes, and nothing else."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.cluster import policies
from e2e.cluster.layout import SPINDLE_IMAGE
from e2e.cluster.state import Options
from e2e.cluster.testbed import Testbed
from e2e.cluster.waiting import wait_for

pytestmark = pytest.mark.e2e

_OPEN, _CLOSED = 7001, 7002
_SERVER: Final = f"""
import selectors, socket
chosen = selectors.DefaultSelector()
for port in ({_OPEN}, {_CLOSED}):
    chosen.register(socket.create_server(("", port)), selectors.EVENT_READ)
while True:
    for key, _ in chosen.select():
        key.fileobj.accept()[0].close()
"""
_ATTEMPT: Final = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("through")
except OSError:
    print("not through")
"""
_POLICY: Final[dict[str, Any]] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "server", "namespace": "default"},
    "spec": {
        "podSelector": {"matchLabels": {"is": "server"}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [{"protocol": "TCP", "port": _OPEN}]},
            {
                "ports": [{"protocol": "TCP", "port": _CLOSED}],
                "from": [{"podSelector": {"matchLabels": {"is": "friend"}}}],
            },
        ],
    },
}
# Name, what it is, and its node: who asks stands beside the server and on another node, as packets take other ways there.
_PODS: Final = (
    ("server", "server", "node1"),
    ("friend-near", "friend", "node1"),
    ("friend-far", "friend", "node2"),
    ("stranger-near", "stranger", "node1"),
    ("stranger-far", "stranger", "node2"),
)
_CLIENTS: Final = tuple(name for name, _, _ in _PODS[1:])


@pytest.fixture(scope="module")
def up(bed: Testbed) -> Iterator[Testbed]:
    if not policies.is_installed():
        pytest.skip("needs kube-router on the PATH")
    bed.up(Options(nodes=2, zones=2, disks=0))
    wait_for("service account", lambda: bed.kubectl("get", "sa", "default", check=False), seconds=30)
    bed.apply(*(_pod(*each) for each in _PODS))
    bed.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=90s")
    yield bed
    bed.down()


def _pod(name: str, what: str, node: str) -> dict[str, Any]:
    program = _SERVER if what == "server" else "import time; time.sleep(10**6)"
    container = {"name": "main", "image": SPINDLE_IMAGE, "command": ["python3", "-c", program]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"is": what}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def _through(bed: Testbed) -> dict[int, set[str]]:
    """Port → who gets through to the server's."""
    address = bed.get("pod", "server")["status"]["podIP"]

    def passes(name: str, port: int) -> bool:
        said = bed.kubectl("exec", name, "--", "python3", "-c", _ATTEMPT, address, str(port))
        return said.strip() == "through"

    return {port: {name for name in _CLIENTS if passes(name, port)} for port in (_OPEN, _CLOSED)}


def test_a_policy_acts_while_kube_router_runs_and_only_then(up: Testbed) -> None:
    everybody, friends = set(_CLIENTS), {"friend-near", "friend-far"}
    open_to_all = {_OPEN: everybody, _CLOSED: everybody}
    wait_for("the server to serve", lambda: _through(up) == open_to_all, seconds=30)
    up.apply(_POLICY)
    assert _through(up) == open_to_all, "the plain bridge enforces nothing"

    up.enforce_policies(on=True)
    up.enforce_policies(on=True)  # they are, and it is left so
    kept_out = {_OPEN: everybody, _CLOSED: friends}
    wait_for("the policy to act", lambda: _through(up) == kept_out, seconds=60)
    assert _through(up) == kept_out

    up.kubectl("delete", "networkpolicy", "server")
    wait_for("the policy to be gone", lambda: _through(up) == open_to_all, seconds=60)

    up.apply(_POLICY)
    wait_for("it to act again", lambda: _through(up) == kept_out, seconds=60)
    up.enforce_policies(on=False)
    assert _through(up) == open_to_all
    for index in (1, 2):
        assert "KUBE-POD-FW" not in up.node(index).run("iptables-save")
        assert up.node(index).run("ipset", "list", "-name") == ""

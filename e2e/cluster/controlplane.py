"""The control plane in one network namespace: etcd, API server, controllers, scheduler, DNS, and a proxy for the host.

It has no node of its own. DNS is CoreDNS as a plain process on the bridge's address, so that it survives the failure of any
node; a kube-proxy makes Service addresses work for tests that run in this namespace.
"""

import sys
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster import programs
from e2e.cluster.cgroups import join_command
from e2e.cluster.layout import API_URL, CONTROL_ADDRESS, DOMAIN, Layout
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.pki import Authority
from e2e.cluster.procs import Process, spawn
from e2e.cluster.proxy import proxy_config
from e2e.cluster.system import in_netns

_MASTERS: Final = "system:masters"
_API_NAMES: Final = (
    CONTROL_ADDRESS,
    "10.96.0.1",
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    f"kubernetes.default.svc.{DOMAIN}",
)

# Who wrote what; reads and the heartbeats of nodes and leaders are left out.
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "userGroups": ["system:nodes"]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    ],
}

_COREFILE: Final = """.:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {kubeconfig} spindle-testbed
        pods insecure
        ttl 5
    }}
    cache 5 {{
        disable success {domain}
        disable denial {domain}
    }}
}}
"""


class ControlPlane:
    """Starts the control plane's programs.

    Args:
        layout: the testbed.
        kubernetes: folder of the Kubernetes programs.
        coredns: the CoreDNS program.
    """

    def __init__(self, layout: Layout, kubernetes: Path, coredns: Path) -> None:
        self._layout, self._kubernetes, self._coredns = layout, kubernetes, coredns
        self._group = f"{layout.cgroup}/control"

    def make_certificates(self, nodes: int) -> None:
        """Create keys, certificates and kubeconfigs of everything except the host."""
        authority = Authority(self._layout.pki)
        authority.issue("apiserver", "kube-apiserver", hosts=_API_NAMES)
        authority.issue("apiserver-kubelet", "kube-apiserver-kubelet-client", group=_MASTERS)
        authority.service_account_keys()
        for name in ("admin", "coredns", "kube-router"):
            authority.kubeconfig(name, API_URL, name, _MASTERS)
        for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
            authority.kubeconfig(name, API_URL, f"system:{name}")
        for node in (self._layout.node(index) for index in range(1, nodes + 1)):
            authority.kubeconfig(node.name, API_URL, f"system:node:{node.name}", "system:nodes")
            authority.issue(f"{node.name}-server", node.name, hosts=[node.name, node.address])

    def start_store(self) -> dict[str, Process]:
        """Start etcd and the API server."""
        pki, state = self._layout.pki, self._layout.state
        policy = state / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_AUDIT_POLICY))
        server = programs.Server(
            programs=self._kubernetes,
            etcd="http://127.0.0.1:2379",
            address=CONTROL_ADDRESS,
            port=6443,
            authority=pki / "ca.crt",
            certificate=pki / "apiserver.crt",
            key=pki / "apiserver.key",
            signing_key=pki / "sa.key",
            signing_public=pki / "sa.pub",
            folder=state / "apiserver",
        )
        command = server.command(
            f"--advertise-address={CONTROL_ADDRESS}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._layout.logs / 'audit.log'}",
        )
        return {
            "etcd": self._start("etcd", programs.etcd(state / "etcd", 2379, 2380)),
            "kube-apiserver": self._start("kube-apiserver", command),
        }

    def start_rest(self) -> dict[str, Process]:
        """Start everything that needs the API server: controllers, scheduler, DNS, kube-proxy."""
        pki, state = self._layout.pki, self._layout.state
        corefile = state / "Corefile"
        corefile.write_text(
            _COREFILE.format(address=CONTROL_ADDRESS, domain=DOMAIN, kubeconfig=pki / "coredns.conf")
        )
        (state / "resolv.conf").write_text(
            f"nameserver {CONTROL_ADDRESS}\nsearch {DOMAIN}\noptions ndots:3\n"
        )
        proxy = state / "proxy.yaml"
        # With a real node's name: for a name without a Node object it waits half a minute.
        proxy.write_text(proxy_config(self._layout.node(1).name, pki / "kube-proxy.conf", CONTROL_ADDRESS))
        manager = programs.manager(
            self._kubernetes,
            pki / "kube-controller-manager.conf",
            pki / "ca.crt",
            pki / "sa.key",
            "--allocate-node-cidrs=false",
            "--node-monitor-grace-period=20s",
            "--pvclaimbinder-sync-period=5s",
            folder=state / "manager",
        )
        commands: dict[str, programs.Command] = {
            "kube-controller-manager": manager,
            "kube-scheduler": programs.scheduler(
                self._kubernetes, pki / "kube-scheduler.conf", state / "scheduler"
            ),
            "coredns": [self._coredns, "-conf", corefile],
            "kube-proxy": [self._kubernetes / "kube-proxy", f"--config={proxy}"],
        }
        return {name: self._start(name, command) for name, command in commands.items()}

    def start_door(self, port: int) -> Process:
        """Start the proxy through which the host reaches the API server: 127.0.0.1 at this port."""
        command = [
            *join_command(self._group),
            *(sys.executable, "-m", "e2e.cluster.door", str(port)),
            *(self._layout.control_netns, CONTROL_ADDRESS, "6443"),
        ]
        return spawn(command, self._layout.logs / "door.log", env={"PYTHONPATH": str(CHECKOUT)})

    def _start(self, name: str, command: programs.Command) -> Process:
        inside = in_netns(self._layout.control_netns, *command)
        return spawn([*join_command(self._group), *inside], self._layout.logs / f"{name}.log")

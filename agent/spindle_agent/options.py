"""The command line of ``spindle-agent``; the environment can set each option's default."""

import argparse
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.api import names
from spindle.model.pod_volumes import path_in_pods
from spindle_shared import logs

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        node: name of the Kubernetes node.
        namespaces: namespaces whose brokers are served; empty for all.
        own_namespace: the agents' namespace, with the Leases and certificates.
        roots: folders below which local volumes are probed; others are left out.
        kubelet_pods: the kubelet's folder of pods, below which it mounts volumes that are not local; empty to leave these out.
        prefix: folder under which the node's paths appear in this container; empty if they are the same.
        api_server: URL of the API server; empty for this pod's cluster.
        token_file, ca_file: credentials for the API server.
        port: port of metrics and health checks.
        key_file: where the agent stores its key for Kafka; None to create a new key at each start.
        broker_port: port of the brokers' listener for agents.
        broker_host: format string with ``cluster``, ``namespace`` and ``id``; empty for the host names in Kubernetes.
    """

    node: str
    namespaces: tuple[str, ...]
    own_namespace: str
    roots: tuple[str, ...]
    prefix: str
    api_server: str
    token_file: Path
    ca_file: Path
    port: int
    json_logs: bool
    broker_port: int
    broker_host: str
    key_file: Path | None = None
    log_level: str = "info"
    kubelet_pods: str = ""

    def local_path(self, path: str) -> tuple[str, str] | None:
        """The local path of a volume's path on the node, and of the root above it; None if it is below no root."""
        plain = os.path.normpath(path)
        here = self.prefix.rstrip("/")
        root = next((root for root in self.roots if plain.startswith(root.rstrip("/") + "/")), None)
        return None if root is None else (here + plain, here + root)

    def path_in_pods(self, kind: str, pod_uid: str, volume: str) -> tuple[str, str] | None:
        """The local path of a volume that the kubelet mounts for a pod, and of its folder of pods; None if the path would lead elsewhere."""
        inside = path_in_pods(kind, pod_uid, volume)
        folder = self.prefix.rstrip("/") + self.kubelet_pods
        return None if inside is None or not self.kubelet_pods else (f"{folder}/{inside}", folder)

    def host_of(self, namespace: str, cluster: str, broker_id: int) -> str:
        """Host name of a broker."""
        if self.broker_host:
            return self.broker_host.format(cluster=cluster, namespace=namespace, id=broker_id)
        return names.node_host(cluster, namespace, broker_id)


def parse(arguments: list[str]) -> Options:
    """Parse the command line; ends the process with a message if it is invalid."""
    args = _parser(os.environ).parse_args(arguments)
    return Options(
        node=args.node,
        namespaces=tuple(args.namespace or ()),
        own_namespace=args.own_namespace,
        roots=tuple(os.path.normpath(root) for root in args.disk_root or ()),
        kubelet_pods=os.path.normpath(args.kubelet_pods) if args.kubelet_pods else "",
        prefix=args.host_prefix,
        api_server=args.api_server or _in_cluster(),
        token_file=args.token_file,
        ca_file=args.ca_file,
        port=args.port,
        json_logs=args.json_logs,
        broker_port=args.broker_port,
        broker_host=args.broker_host,
        key_file=args.key_file,
        log_level=args.log_level,
    )


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spindle-agent", description="Probes the disks of one node and moves replicas between them."
    )
    parser.add_argument(
        "--node", default=env.get("NODE_NAME") or socket.gethostname(), help="name of this node (NODE_NAME)"
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[name for name in env.get("SPINDLE_NAMESPACES", "").split(",") if name] or None,
        help="serve only the brokers of this namespace; may be repeated (SPINDLE_NAMESPACES)",
    )
    parser.add_argument(
        "--own-namespace",
        default=_own_namespace(),
        help="namespace of the Lease and the certificates (POD_NAMESPACE; default: this pod's)",
    )
    parser.add_argument(
        "--disk-root",
        action="append",
        default=[root for root in env.get("SPINDLE_DISK_ROOTS", "").split(",") if root] or None,
        help="probe volumes below this folder of the node; may be repeated (SPINDLE_DISK_ROOTS)",
    )
    parser.add_argument(
        "--kubelet-pods",
        default=env.get("SPINDLE_KUBELET_PODS", ""),
        help="probe volumes that are not local below this folder, in which the kubelet mounts them (SPINDLE_KUBELET_PODS; default: leave them out)",
    )
    parser.add_argument(
        "--host-prefix",
        default=env.get("SPINDLE_HOST_PREFIX", ""),
        help="where the node's folders are mounted in this container (SPINDLE_HOST_PREFIX; default: at the same paths)",
    )
    parser.add_argument(
        "--api-server",
        default=env.get("SPINDLE_API_SERVER", ""),
        help="URL of the API server (SPINDLE_API_SERVER; default: the one of this pod's cluster)",
    )
    parser.add_argument(
        "--token-file", type=Path, default=Path(env.get("SPINDLE_TOKEN_FILE", SERVICE_ACCOUNT / "token"))
    )
    parser.add_argument(
        "--ca-file", type=Path, default=Path(env.get("SPINDLE_CA_FILE", SERVICE_ACCOUNT / "ca.crt"))
    )
    parser.add_argument(
        "--log-level",
        choices=logs.LEVELS,
        default=env.get("SPINDLE_LOG_LEVEL", "info"),
        help="lowest level of the lines that are written",
    )
    parser.add_argument("--port", type=int, default=int(env.get("SPINDLE_PORT", "8080")))
    parser.add_argument(
        "--json-logs", action="store_true", default=env.get("SPINDLE_JSON_LOGS", "").lower() in ("1", "true")
    )
    _add_broker_options(parser, env)
    return parser


def _add_broker_options(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    parser.add_argument(
        "--broker-port",
        type=int,
        default=int(env.get("SPINDLE_BROKER_PORT", names.PORT_REPLICATION)),
        help="port of the brokers' listener for agents (SPINDLE_BROKER_PORT)",
    )
    parser.add_argument(
        "--broker-host",
        default=env.get("SPINDLE_BROKER_HOST", ""),
        help="host of a broker, with {cluster}, {namespace} and {id} (SPINDLE_BROKER_HOST; default: its host name in Kubernetes)",
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        default=Path(env["SPINDLE_KEY_FILE"]) if env.get("SPINDLE_KEY_FILE") else None,
        help="file in memory for the private key (SPINDLE_KEY_FILE; default: none, each start creates a new key)",
    )


def _own_namespace() -> str:
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    file = SERVICE_ACCOUNT / "namespace"
    return file.read_text().strip() if file.is_file() else "default"


def _in_cluster() -> str:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

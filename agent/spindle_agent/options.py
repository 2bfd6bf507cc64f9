"""The command line of ``spindle-agent``; each option's default can come from the environment."""

import argparse
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.cluster import names

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        node: name of the Kubernetes node.
        namespaces: whose brokers to look after; empty for all.
        own_namespace: the agent's, where its Lease and its certificates are.
        roots: folders below which volumes are looked at; others are left out.
        prefix: folder under which the node's paths appear in this container; empty where they are the same.
        api_server: its URL; empty for the cluster that this pod runs in.
        token_file, ca_file: credentials for it.
        port: of metrics and health.
        key_file: where the agent keeps its key for Kafka; None for nowhere, and each start makes a new one.
        broker_port: on which brokers are asked.
        broker_host: a format with ``cluster``, ``namespace`` and ``id``; empty for the host names in Kubernetes.
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

    def local_path(self, path: str) -> tuple[str, str] | None:
        """Where a volume's path on the node, and the root that it is below, are found here; None if it is below none."""
        plain = os.path.normpath(path)
        here = self.prefix.rstrip("/")
        root = next((root for root in self.roots if plain.startswith(root.rstrip("/") + "/")), None)
        return None if root is None else (here + plain, here + root)

    def host_of(self, namespace: str, cluster: str, broker_id: int) -> str:
        """Host name of a broker."""
        if self.broker_host:
            return self.broker_host.format(cluster=cluster, namespace=namespace, id=broker_id)
        return names.node_host(cluster, namespace, broker_id)


def parse(arguments: list[str]) -> Options:
    """Read the command line; ends the process with a message if it makes no sense."""
    env = os.environ
    parser = argparse.ArgumentParser(prog="spindle-agent", description="Looks after the disks of one node.")
    parser.add_argument(
        "--node", default=env.get("NODE_NAME") or socket.gethostname(), help="name of this node (NODE_NAME)"
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[name for name in env.get("SPINDLE_NAMESPACES", "").split(",") if name] or None,
        help="look after the brokers of this namespace only; may be given more than once (SPINDLE_NAMESPACES)",
    )
    parser.add_argument(
        "--own-namespace",
        default=_own_namespace(),
        help="where the Lease and the certificates are (POD_NAMESPACE; default: this pod's)",
    )
    parser.add_argument(
        "--disk-root",
        action="append",
        default=[root for root in env.get("SPINDLE_DISK_ROOTS", "").split(",") if root] or None,
        help="look at volumes below this folder of the node; may be given more than once (SPINDLE_DISK_ROOTS)",
    )
    parser.add_argument(
        "--host-prefix",
        default=env.get("SPINDLE_HOST_PREFIX", ""),
        help="where the node's folders are mounted here (SPINDLE_HOST_PREFIX; default: at their own paths)",
    )
    parser.add_argument(
        "--api-server",
        default=env.get("SPINDLE_API_SERVER", ""),
        help="URL of the API server (SPINDLE_API_SERVER; default: that of this pod's cluster)",
    )
    parser.add_argument(
        "--token-file", type=Path, default=Path(env.get("SPINDLE_TOKEN_FILE", SERVICE_ACCOUNT / "token"))
    )
    parser.add_argument(
        "--ca-file", type=Path, default=Path(env.get("SPINDLE_CA_FILE", SERVICE_ACCOUNT / "ca.crt"))
    )
    parser.add_argument("--port", type=int, default=int(env.get("SPINDLE_PORT", "8080")))
    parser.add_argument(
        "--json-logs", action="store_true", default=env.get("SPINDLE_JSON_LOGS", "").lower() in ("1", "true")
    )
    parser.add_argument(
        "--broker-port",
        type=int,
        default=int(env.get("SPINDLE_BROKER_PORT", names.PORT_REPLICATION)),
        help="port on which brokers are asked (SPINDLE_BROKER_PORT)",
    )
    parser.add_argument(
        "--broker-host",
        default=env.get("SPINDLE_BROKER_HOST", ""),
        help="host of a broker, with {cluster}, {namespace} and {id} (SPINDLE_BROKER_HOST; default: its own in Kubernetes)",
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        default=Path(env["SPINDLE_KEY_FILE"]) if env.get("SPINDLE_KEY_FILE") else None,
        help="where the key for Kafka is kept, in memory (SPINDLE_KEY_FILE; default: nowhere, and each start makes a new one)",
    )
    args = parser.parse_args(arguments)
    return Options(
        node=args.node,
        namespaces=tuple(args.namespace or ()),
        own_namespace=args.own_namespace,
        roots=tuple(os.path.normpath(root) for root in args.disk_root or ()),
        prefix=args.host_prefix,
        api_server=args.api_server or _in_cluster(),
        token_file=args.token_file,
        ca_file=args.ca_file,
        port=args.port,
        json_logs=args.json_logs,
        broker_port=args.broker_port,
        broker_host=args.broker_host,
        key_file=args.key_file,
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

"""The command line of ``spindle-operator``."""

import argparse
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.model.allowed import KAFKA_REPOSITORY, Allowed, read
from spindle_shared import logs

_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        namespaces: to manage; empty for all.
        image: the operator's own image.
        agent_namespace: of the agents; empty for none.
        rebalance_image: of the rebalance job; empty for no job.
        kafka_repository: of Kafka's image, without a tag.
        allowed: settings that KafkaClusters may use beyond Kafka.
    """

    namespaces: list[str]
    lease_namespace: str
    identity: str
    image: str
    agent_namespace: str
    rebalance_image: str
    kafka_repository: str
    json_logs: bool
    port: int
    resync: float
    kafka_timeout: float
    allowed: Allowed
    log_level: str = "info"
    read_from_watches: bool = False


def parse(arguments: list[str]) -> Options:
    """Read the command line; each option's default can come from the environment (``SPINDLE_PORT`` and so on)."""
    args = _parser(os.environ).parse_args(arguments)
    return Options(
        namespaces=args.namespace or [],
        lease_namespace=args.lease_namespace,
        # Random: a process that is restarted in the same pod must not mistake itself for its predecessor.
        identity=f"{args.identity}_{secrets.token_hex(4)}",
        image=args.image,
        agent_namespace=args.agent_namespace,
        rebalance_image=args.rebalance_image,
        kafka_repository=args.kafka_repository,
        json_logs=args.json_logs,
        port=args.port,
        resync=args.resync,
        kafka_timeout=args.kafka_timeout,
        allowed=args.allow,
        log_level=args.log_level,
        read_from_watches=args.read_from_watches,
    )


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spindle-operator", description="Operator for Apache Kafka on many disks and many racks."
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[name for name in env.get("SPINDLE_NAMESPACES", "").split(",") if name] or None,
        help="manage this namespace only; repeatable (default: all)",
    )
    parser.add_argument(
        "--lease-namespace",
        default=env.get("SPINDLE_LEASE_NAMESPACE") or own_namespace(),
        help="namespace of the leader election Lease (default: this pod's namespace)",
    )
    parser.add_argument(
        "--identity",
        default=env.get("POD_NAME") or socket.gethostname(),
        help="name in the Lease and in events",
    )
    parser.add_argument(
        "--image",
        default=env.get("SPINDLE_IMAGE", ""),
        help="this operator's image, also used by init containers of Kafka pods",
    )
    parser.add_argument(
        "--agent-namespace",
        default=env.get("SPINDLE_AGENT_NAMESPACE", ""),
        help="namespace of the agents and their certificates (default: no agents)",
    )
    parser.add_argument(
        "--rebalance-image",
        default=env.get("SPINDLE_REBALANCE_IMAGE", ""),
        help="image of the rebalance job if a KafkaCluster sets none (default: no job)",
    )
    parser.add_argument(
        "--kafka-repository",
        default=env.get("SPINDLE_KAFKA_REPOSITORY") or KAFKA_REPOSITORY,
        help="repository of Kafka's image if a KafkaCluster sets no image; the tag is Kafka's version (default: %(default)s)",
    )
    parser.add_argument(
        "--json-logs", action="store_true", default=env.get("SPINDLE_JSON_LOGS", "").lower() in ("1", "true")
    )
    parser.add_argument(
        "--log-level",
        choices=logs.LEVELS,
        default=env.get("SPINDLE_LOG_LEVEL", "info"),
        help="lowest level of the lines that are written",
    )
    parser.add_argument("--port", type=int, default=int(env.get("SPINDLE_PORT", "8080")))
    parser.add_argument(
        "--resync",
        type=float,
        default=float(env.get("SPINDLE_RESYNC", "60")),
        help="seconds between idle passes",
    )
    parser.add_argument(
        "--read-from-watches",
        action="store_true",
        default=env.get("SPINDLE_READ_FROM_WATCHES", "").lower() in ("1", "true"),
        help="passes that find nothing to do read Kubernetes from watches and list nothing",
    )
    parser.add_argument(
        "--kafka-timeout",
        type=float,
        default=float(env.get("SPINDLE_KAFKA_TIMEOUT", "5")),
        help="timeout in seconds of one request to one broker",
    )
    parser.add_argument(
        "--allow",
        type=_allowed,
        default=env.get("SPINDLE_ALLOW") or "{}",
        help="settings that KafkaClusters may use beyond Kafka, as JSON: images, jvmOptions, classes, annotations, hadoopSettings, csiDrivers, sidecars, disksPerCluster (default: harmless ones)",
    )
    return parser


def _allowed(text: str) -> Allowed:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def own_namespace() -> str:
    """The namespace that this pod runs in; ``default`` outside of Kubernetes."""
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    return _NAMESPACE.read_text().strip() if _NAMESPACE.is_file() else "default"

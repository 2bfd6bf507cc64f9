"""The command line of ``spindle-rebalance``."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spindle.api import names, quantity
from spindle_rebalance.kafka_look import Access

_DAYS: Final = 28.0
_MIB: Final = 1024 * 1024
_LEAST_MIB: Final = 512  # minimum heap: Spark does not start with less than 450 MiB
_OVERHEAD: Final = (
    0.4  # share of an executor's memory for Python outside the JVM (Spark's default for Python)
)
_DRIVER_HEAP: Final = 0.5  # share of the pod's memory: the planner and the workers are Python


@dataclass(frozen=True)
class Target:
    """One cluster of a run.

    Attributes:
        report_map: ConfigMap for the report; empty for none.
    """

    namespace: str
    cluster: str
    access: Access
    report_map: str = ""

    @property
    def name(self) -> str:
        """``namespace/cluster``."""
        return f"{self.namespace}/{self.cluster}"


@dataclass(frozen=True)
class Executors:
    """Executor pods of a run.

    Attributes:
        memory_mib: total memory of each.
    """

    count: int
    cores: str
    memory_mib: int

    @property
    def heap_mib(self) -> int:
        """Heap of the JVM; the rest of the memory is for Python."""
        return max(_LEAST_MIB, int(self.memory_mib / (1 + _OVERHEAD)))


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        targets: clusters to plan, at least one.
        master: Spark's master URL if there are no executors.
        executors: None to run only in this process's pod.
        heap_mib: heap of the JVM in this process's pod; None for Java's default.
        scratch: folder for Spark's temporary files.
        report, record: folders for each cluster's report and record; None for none.
        replay: folder with records to plan from instead of the current state.
        days: days of history to read.
        publish: whether to write the proposal to Kubernetes.
        kafka_timeout: seconds for one response of Kafka.
        rollup: URL of the folder for hourly features; None for no roll-up.
        hadoop: settings of Hadoop's file systems.
    """

    targets: tuple[Target, ...]
    master: str
    executors: Executors | None
    heap_mib: int | None
    scratch: Path | None
    report: Path | None
    record: Path | None
    replay: Path | None
    days: float
    publish: bool
    kafka_timeout: float
    json_logs: bool
    rollup: str | None = None
    hadoop: Mapping[str, str] = field(default_factory=dict)


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line; ends the process with a message if it is invalid."""
    parser = _parser()
    args = parser.parse_args(arguments)
    targets = _targets(parser, args)
    executors, heap = None, None
    try:
        if args.memory is not None:
            heap = max(_LEAST_MIB, int(_DRIVER_HEAP * quantity.whole(args.memory)) // _MIB)
    except ValueError as error:
        parser.error(f"--memory: {error}")
    if args.executors:
        try:
            memory = quantity.whole(args.executor_memory) // _MIB
            cores = f"{quantity.parse(args.executor_cpu).normalize():f}"
        except ValueError as error:
            parser.error(f"--executor-cpu, --executor-memory: {error}")
        executors = Executors(args.executors, cores, memory)
    if args.replay is not None and not args.replay.is_dir():
        parser.error(f"--replay: the folder {args.replay} does not exist")
    return Options(
        targets=targets,
        master=args.master,
        executors=executors,
        heap_mib=heap,
        scratch=args.scratch,
        report=args.report,
        record=args.record,
        replay=args.replay,
        days=args.days,
        publish=not args.dry_run,
        kafka_timeout=args.kafka_timeout,
        json_logs=not args.plain_logs,
        rollup=args.rollup,
        hadoop=_settings(parser, args.hadoop),
    )


def _settings(parser: argparse.ArgumentParser, told: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in told:
        key, equals, value = each.partition("=")
        if not key or not equals:
            parser.error(f"--hadoop {each}: must be KEY=VALUE")
        found[key] = value
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spindle-rebalance", description="Plans replica moves for Kafka clusters from their history."
    )
    run = parser.add_subparsers(dest="command", required=True).add_parser(
        "run", help="read samples and the cluster's state, plan, propose"
    )
    one = run.add_argument_group("one cluster")
    one.add_argument("--cluster-namespace", default=os.environ.get(names.ENV_POD_NAMESPACE, "default"))
    one.add_argument("--cluster", help="name of the KafkaCluster")
    one.add_argument("--bootstrap", help="host:port of a Kafka listener with mutual TLS")
    one.add_argument("--tls", type=Path, help="folder with ca.crt, tls.crt and tls.key")
    one.add_argument("--report-configmap", default="", help="ConfigMap for the report (default: none)")
    many = run.add_argument_group("several clusters")
    many.add_argument(
        "--fleet",
        type=Path,
        metavar="FILE",
        help='JSON: [{"namespace", "cluster", "bootstrap", "tls", "reportConfigmap"}, …]; planned in parallel',
    )
    run.add_argument("--master", default="local[*]", help="Spark's master URL if there are no executors")
    run.add_argument(
        "--memory", help="memory of this process and its children, as a quantity; half of it is Java's heap"
    )
    run.add_argument("--executors", type=int, default=0, help="number of executor pods (default: none)")
    run.add_argument("--executor-cpu", default="1", help="cores of each executor, as a quantity")
    run.add_argument("--executor-memory", default="2Gi", help="memory of each executor, as a quantity")
    run.add_argument("--scratch", type=Path, help="folder for Spark's temporary files")
    run.add_argument(
        "--report", type=Path, metavar="FOLDER", help="also write each cluster's report to this folder"
    )
    run.add_argument(
        "--record", type=Path, metavar="FOLDER", help="record the input of each plan in this folder"
    )
    run.add_argument(
        "--replay",
        type=Path,
        metavar="FOLDER",
        help="plan from a record instead of the current state; publishes nothing",
    )
    run.add_argument("--rollup", metavar="URL", help="store hourly features as Parquet below this folder")
    run.add_argument(
        "--hadoop",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="setting of Hadoop's file systems",
    )
    run.add_argument("--days", type=float, default=_DAYS, help="days of history to read (default: 28)")
    run.add_argument("--dry-run", action="store_true", help="publish nothing")
    run.add_argument("--kafka-timeout", type=float, default=10.0, help="seconds for one response of Kafka")
    run.add_argument("--plain-logs", action="store_true", help="log text instead of JSON")
    return parser


def _targets(parser: argparse.ArgumentParser, args: Any) -> tuple[Target, ...]:
    if args.fleet is None:
        missing = [name for name in ("cluster", "bootstrap", "tls") if getattr(args, name) is None]
        if missing:
            parser.error(f"--{missing[0]} is missing: name a cluster, or use --fleet")
        access = Access(args.bootstrap, args.tls)
        return (Target(args.cluster_namespace, args.cluster, access, args.report_configmap),)
    if args.cluster is not None:
        parser.error("--cluster and --fleet exclude each other")
    try:
        entries = json.loads(args.fleet.read_text(encoding="utf-8"))
        found = tuple(
            Target(
                str(e["namespace"]),
                str(e["cluster"]),
                Access(str(e["bootstrap"]), Path(e["tls"])),
                str(e.get("reportConfigmap", "")),
            )
            for e in entries
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"--fleet {args.fleet}: {type(error).__name__}: {error}")
    if not found:
        parser.error(f"--fleet {args.fleet}: the file names no cluster")
    if len({target.name for target in found}) < len(found):
        parser.error(f"--fleet {args.fleet}: the file names a cluster twice")
    return found

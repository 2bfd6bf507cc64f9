"""The state of a cluster, read from Kubernetes and Kafka or from a record, and the record itself."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spindle.balance.picture import BrokerFact, Picture, RecordError, is_open
from spindle_rebalance import kafka_look
from spindle_rebalance.errors import RECORD, RunError
from spindle_rebalance.kafka_look import Access
from spindle_rebalance.kube import Kube

LOOK: Final = "look.json.gz"
OFFSETS: Final = "offsets.json"


def take(kube: Kube, namespace: str, cluster: str, access: Access, timeout: float, now_ms: int) -> Picture:
    """Read the state from Kubernetes and Kafka.

    Args:
        kube: connection to Kubernetes.
        namespace: namespace of the KafkaCluster.
        cluster: name of the KafkaCluster.
        access: address and credentials of its Kafka.
        timeout: seconds for one response of Kafka.
        now_ms: current time in ms since 1970.

    Raises:
        RunError: something that a plan needs could not be read.
    """
    spec = kube.cluster(namespace, cluster)["spec"]
    brokers = kube.brokers(namespace, cluster)
    approved = under_way(kube, namespace, cluster)
    view = kafka_look.look(access, timeout)
    try:
        return Picture(
            namespace=namespace,
            cluster=cluster,
            at_ms=now_ms,
            spec=spec,
            brokers=tuple(BrokerFact.parse(raw) for raw in brokers),
            kafka=view,
            under_way=approved,
        )
    except ValidationError as error:
        raise RunError(RECORD, f"objects of {namespace}/{cluster} cannot be read: {error}") from error


def under_way(kube: Kube, namespace: str, cluster: str) -> str:
    """The approved or executing KafkaRebalance; empty if there is none."""
    found = (str(r["metadata"]["name"]) for r in kube.rebalances(namespace, cluster) if _open(r))
    return next(found, "")


def _open(rebalance: Mapping[str, Any]) -> bool:
    status = rebalance.get("status") or {}
    return is_open(status.get("phase"), rebalance["spec"].get("approved"))


def write(folder: Path, picture: Picture) -> None:
    """Record a state. The same state gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(picture.to_document(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (folder / LOOK).write_bytes(gzip.compress(text.encode(), mtime=0))


def read(folder: Path) -> Picture:
    """Read a record made by `write`.

    Raises:
        RunError: the record is missing or incomplete.
    """
    try:
        return Picture.from_document(json.loads(gzip.decompress((folder / LOOK).read_bytes())))
    except (OSError, EOFError, ValueError, RecordError) as error:
        raise RunError(RECORD, f"{folder / LOOK}: {error}") from error


def write_offsets(folder: Path, offsets: Mapping[int, tuple[int, int]], at_ms: int) -> None:
    """Record which samples were read.

    Args:
        folder: folder of the record.
        offsets: partition → first offset and last offset + 1.
        at_ms: time of the state for which they were evaluated, in ms since 1970; a newer state may have been read since.
    """
    ranges = {str(p): list(ends) for p, ends in sorted(offsets.items())}
    (folder / OFFSETS).write_text(json.dumps({"atMs": at_ms, "ranges": ranges}), encoding="utf-8")


def read_offsets(folder: Path) -> tuple[dict[int, tuple[int, int]], int]:
    """Read a record made by `write_offsets`: the offsets, and the time of the state for which they were evaluated.

    Raises:
        RunError: the record is missing or incomplete.
    """
    try:
        found = json.loads((folder / OFFSETS).read_text(encoding="utf-8"))
        ranges = {int(p): (int(first), int(end)) for p, (first, end) in found["ranges"].items()}
        return ranges, int(found["atMs"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(RECORD, f"{folder / OFFSETS}: {error!r}") from error

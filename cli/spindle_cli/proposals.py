"""KafkaRebalances in the terminal: list, show, approve, stop, and start a run."""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spindle.api import names
from spindle.api.rebalance import KafkaRebalance, KafkaRebalanceStatus
from spindle.model.waiting import counted
from spindle_cli import overview
from spindle_cli.copied import command
from spindle_cli.kube import Json, Kube, KubeError, NotFoundError
from spindle_cli.screen import tell
from spindle_cli.terminal import pause

_OVER: Final = ("Done", "Stopped", "Expired", "Superseded", "Failed")
_OUTCOMES: Final = {".": "waits", ">": "in progress", "+": "done", "-": "left out"}
_DROPS_SHOWN: Final = 10
_OPERATOR_S: Final = 60.0  # longer than a pass of a large cluster takes
_POLL_S: Final = 1.0


def list_of(found: Iterable[KafkaRebalance]) -> Table:
    """One line per proposal."""
    table = Table(box=None, pad_edge=False)
    for head in ("NAME", "CLUSTER", "PHASE", "MOVED", "SIZE", "ETA", "MESSAGE"):
        table.add_column(head, overflow="fold")
    for each in found:
        status = each.status
        table.add_row(
            each.metadata.name,
            each.spec.cluster,
            phase_of(each),
            (status.progress if status else None) or f"0/{len(each.spec.moves)}",
            size(sum(move.bytes for move in each.spec.moves)),
            (status.eta if status else None) or "",
            (status.message if status else None) or "",
        )
    return table


def phase_of(each: KafkaRebalance) -> str:
    """Its phase; Proposed if the operator has not set one yet."""
    return (each.status.phase if each.status else None) or "Proposed"


def is_over(each: KafkaRebalance) -> bool:
    """Whether it has ended."""
    return phase_of(each) in _OVER


def page(each: KafkaRebalance, most: int) -> RenderableType:
    """One proposal, on one screen."""
    parts: list[RenderableType] = [_head(each), _worth(each)]
    if most and each.spec.moves:
        parts += [Text(), _moves(each, most)]
    dropped = list(each.status.dropped) if each.status else []
    if dropped:
        parts += [Text(f"\nLeft out: {len(dropped)}")]
        parts += [Text(f"  {drop.reason}: {drop.message}") for drop in dropped[:_DROPS_SHOWN]]
        if len(dropped) > _DROPS_SHOWN:
            parts.append(
                Text(
                    f"  and {len(dropped) - _DROPS_SHOWN} more: {command(f'kubectl get skr {each.metadata.name} -o yaml')}"
                )
            )
    if phase_of(each) == "Proposed":
        parts.append(Text(f"\nApprove it with: {command(f'spindle rebalance approve {each.metadata.name}')}"))
    return Group(*parts)


def _head(each: KafkaRebalance) -> Text:
    status = each.status
    lines = [f"{each.metadata.name}: {phase_of(each)}, for KafkaCluster {each.spec.cluster}"]
    if status and status.message:
        lines.append(status.message)
    lines.append(f"hash {each.spec.input_hash}, expires {each.spec.expires}")
    if status and status.started_at:
        lines.append(
            f"started {status.started_at}{_end(status)}; {status.progress} moves, {size(status.moved_bytes or 0)} moved"
        )
    return Text("\n".join(lines))


def _end(status: KafkaRebalanceStatus) -> str:
    """When it ended and how long it took, else its estimated end; empty if unknown."""
    if status.started_at and status.ended_at:
        begun, ended = (datetime.fromisoformat(at) for at in (status.started_at, status.ended_at))
        return f", ended {status.ended_at} after {(ended - begun).total_seconds():.0f} s"
    return f", until {status.eta}" if status.eta else ""


def _worth(each: KafkaRebalance) -> Text:
    """Cost and gain."""
    across = [move for move in each.spec.moves if move.from_broker != move.to_broker]
    inside = [move for move in each.spec.moves if move.from_broker == move.to_broker]
    cost = f"cost: {len(across)} moves between brokers, {size(sum(m.bytes for m in across))}; "
    lines = [f"{cost}{len(inside)} between disks, {size(sum(m.bytes for m in inside))}"]
    gain = each.spec.gain
    for what, before, after in (
        ("fullest disk, %", gain.fullest_percent_before, gain.fullest_percent_after),
        ("disks out of band", gain.disks_out_of_band_before, gain.disks_out_of_band_after),
        ("brokers out of band", gain.brokers_out_of_band_before, gain.brokers_out_of_band_after),
        ("partitions on too few racks", gain.rack_violations_before, gain.rack_violations_after),
    ):
        if before is not None and after is not None:
            lines.append(f"gain: {what}: {before} → {after}")
    if each.spec.leaders:
        lines.append(f"leaders to change: {counted(len(each.spec.leaders), 'partition')}")
    forecast = each.spec.forecast
    if forecast is not None and forecast.first_full_at:
        lines.append(
            f"forecast without it: {forecast.first_full_disk or 'a disk'} is full at {forecast.first_full_at}"
        )
    return Text("\n".join(lines))


def _moves(each: KafkaRebalance, most: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("MOVE", "FROM", "TO", "SIZE", "STATE", "WHY"):
        table.add_column(head, overflow="fold")
    letters = (each.status.outcomes if each.status else None) or ""
    rows = sorted(enumerate(each.spec.moves), key=lambda row: -row[1].bytes)
    for index, move in rows[:most]:
        letter = letters[index] if index < len(letters) else "."
        table.add_row(
            f"{move.topic}-{move.partition}",
            _place(move.from_broker, move.from_dir),
            _place(move.to_broker, move.to_dir),
            size(move.bytes),
            _OUTCOMES.get(letter, letter),
            move.reason,
        )
    if len(rows) > most:
        table.caption = f"{counted(len(rows) - most, 'smaller move')} not shown"
    return table


def _place(broker: int, path: str) -> str:
    """``2:disk1`` for a log dir of Spindle, else the full path."""
    disk = path.removeprefix(f"{names.DISKS_ROOT}/").removesuffix(f"/{names.LOG_SUBDIR}")
    return f"{broker}:{disk}"


def size(count: int) -> str:
    """Bytes with a decimal unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def approve(kube: Kube, name: str, looked_at: str | None) -> str:
    """Approve a proposal; returns the message to print.

    Raises:
        KubeError: its hash differs from the reviewed one, or it has ended.
    """
    each = kube.rebalance(name)
    if looked_at is not None and looked_at != each.spec.input_hash:
        raise KubeError(f"{name} has the hash {each.spec.input_hash}, not {looked_at}: review it again")
    _still_open(each)
    kube.change_rebalance(name, each.metadata.resource_version, {"approved": each.spec.input_hash})
    return f"{name} is approved ({each.spec.input_hash}).\nFollow it with: {command(f'spindle rebalance wait {name}')}"


def stop(kube: Kube, name: str) -> str:
    """Stop a proposal; returns the message to print.

    Raises:
        KubeError: it has ended already.
    """
    each = kube.rebalance(name)
    _still_open(each)
    # Without a resourceVersion: a stop must not fail because the status was written meanwhile.
    kube.change_rebalance(name, "", {"stop": True})
    return f"{name} is stopped: no further move starts, and moves in progress are cancelled."


def _still_open(each: KafkaRebalance) -> None:
    if is_over(each):
        raise KubeError(
            f"{each.metadata.name} has ended ({phase_of(each)}). To create a new one: {command('spindle rebalance run')}"
        )


def run(kube: Kube, cluster: str, now: datetime) -> str:
    """Start a run of the rebalance job now; returns the name of the Job.

    Raises:
        KubeError: the cluster has no rebalance job, or the operator has not read its last change.
    """
    _job_of(kube, cluster)  # without one there is nothing to wait for
    _wait_for_operator(kube, cluster)
    made = job_from(_job_of(kube, cluster), now)
    kube.create_job(made)
    return str(made["metadata"]["name"])


def _job_of(kube: Kube, cluster: str) -> Json:
    try:
        return kube.cron_job(names.rebalance_job(cluster))
    except NotFoundError as error:
        raise KubeError(
            f"{cluster} has no rebalance job: set its image in the chart (rebalance.image) or in the KafkaCluster "
            "(spec.rebalance.engine.image)"
        ) from error


def _wait_for_operator(kube: Kube, cluster: str) -> None:
    """Wait until the operator has read the KafkaCluster as it is: right after a change, the job still has the former settings."""
    if overview.is_observed(kube.raw("KafkaCluster", cluster)):
        return
    tell(f"Waiting until the operator has read the last change of KafkaCluster {cluster} …")
    deadline = time.monotonic() + _OPERATOR_S
    while time.monotonic() < deadline:
        pause(_POLL_S)
        if overview.is_observed(kube.raw("KafkaCluster", cluster)):
            return
    job = names.rebalance_job(cluster)
    raise KubeError(
        f"the operator has not read the last change of KafkaCluster {cluster} within {_OPERATOR_S:.0f} s, and the job would run with the "
        f"former settings. Whether the operator works: {command('spindle doctor')}. A run with the former settings: "
        f"{command(f'kubectl create job --from=cronjob/{job} {job}-now')}"
    )


def job_from(source: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The Job that ``kubectl create job --from`` would create, owned by the CronJob so that its history limits apply."""
    template, meta = source["spec"]["jobTemplate"], source["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{meta['name']}-{now:%m%d%H%M%S}",
            "namespace": meta["namespace"],
            "labels": dict((template.get("metadata") or {}).get("labels") or {}),
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"],
    }

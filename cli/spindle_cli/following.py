"""Follows long operations: a run of the rebalance job (by its log) and the execution of a proposal."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from spindle.api.rebalance import KafkaRebalance
from spindle_cli import proposals
from spindle_cli.copied import command
from spindle_cli.kube import Json, Kube, KubeError, NotFoundError
from spindle_cli.terminal import pause

POLL_S: Final = 1.0
_START_S: Final = 180.0  # until the job's container runs; its image is large
_SETTLE_S: Final = 30.0  # from the end of the log to the state of the container

Say = Callable[[str], None]


def job(kube: Kube, name: str, say: Say) -> bool:
    """Print the log of a rebalance run until it has ended, then its result.

    Returns:
        Whether the run succeeded.

    Raises:
        KubeError: its pod did not start, or no longer exists.
    """
    began = time.monotonic()
    pod = _started(kube, name)
    say(f"{time.monotonic() - began:5.0f} s  pod {pod} runs on {kube.pod(pod)['spec']['nodeName']}")
    last = ""
    for line in kube.log(pod):
        if event := event_of(line):
            last = event
            say(f"{time.monotonic() - began:5.0f} s  {event}")
    return _told(name, _ended(kube, pod), last, say)


def event_of(line: str) -> str:
    """Message of a line of the job's log, without the leading cluster name; empty for lines of other loggers."""
    try:
        found = json.loads(line)
        event = str(found["event"])
    except (ValueError, KeyError, TypeError):
        return ""
    cluster = str(found.get("cluster", ""))  # other prefixes (what else the step is about) stay
    return event.removeprefix(f"{cluster}: ") if "/" in cluster else event


def _started(kube: Kube, job_name: str) -> str:
    """Name of the job's pod, once its container has started."""
    deadline = time.monotonic() + _START_S
    held = "it has no pod yet"
    while time.monotonic() < deadline:
        for pod in kube.pods(f"job-name={job_name}"):
            if _state(pod).keys() & {"running", "terminated"}:
                return str(pod["metadata"]["name"])
            held = _held_up_by(pod)
        pause(POLL_S)
    raise KubeError(f"Job {job_name} did not start within {_START_S:.0f} s: {held}")


def _ended(kube: Kube, pod: str) -> Json:
    """How the container ended. If the log connection broke earlier, this keeps waiting."""
    quiet = time.monotonic() + _SETTLE_S
    while True:
        try:
            found = kube.pod(pod)
        except NotFoundError as error:
            raise KubeError(f"{error}: the Job was deleted") from error
        if "terminated" in (state := _state(found)):
            return dict(state["terminated"])
        if time.monotonic() > quiet and "running" not in state:
            raise KubeError(f"pod {pod} no longer runs, and its exit status is unknown")
        pause(POLL_S)


def _told(name: str, ended: Json, last: str, say: Say) -> bool:
    """Print the run's termination message, unless the last line of its log has it already."""
    good = ended.get("exitCode") == 0
    try:
        outcome = json.loads(ended.get("message") or "")
        text, proposal = f"{outcome['reason']}: {outcome['message']}", outcome.get("proposal")
    except (ValueError, KeyError, TypeError):
        text, proposal = f"{ended.get('reason', 'it ended')}, exit code {ended.get('exitCode')}", None
    if text not in last:
        say(text)
    if proposal:
        say(f"To inspect it: {command(f'spindle rebalance show {proposal}')}")
    if not good:
        say(f"Full log: {command(f'kubectl logs job/{name}')}")
    return good


def _state(pod: Json) -> dict[str, Any]:
    """State of the pod's only container; empty while it has none."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    return dict(statuses[0].get("state") or {})


def _held_up_by(pod: Json) -> str:
    if waiting := _state(pod).get("waiting"):
        return f"{waiting.get('reason')} {waiting.get('message') or ''}".strip()
    for condition in pod["status"].get("conditions") or ():
        if condition["status"] == "False":
            return f"{condition.get('reason')} {condition.get('message') or ''}".strip()
    return str(pod["status"].get("phase"))


def proposal(kube: Kube, name: str, timeout: float, say: Say) -> bool:
    """Print the progress of a proposal whenever it changes, until it has ended.

    Args:
        timeout: seconds after which to stop waiting.

    Returns:
        Whether it is done.
    """
    began, told = time.monotonic(), ""
    while True:
        each = kube.rebalance(name)
        if (line := progress_of(each)) != told:
            say(f"{time.monotonic() - began:5.0f} s  {line}")
            told = line
        if proposals.is_over(each):
            return proposals.phase_of(each) == "Done"
        if time.monotonic() - began > timeout:
            say(
                f"{name} has not ended after {timeout:.0f} s; see: {command(f'spindle rebalance show {name}')}"
            )
            return False
        pause(POLL_S)


def progress_of(each: KafkaRebalance) -> str:
    """Phase, moves and bytes, estimated end, and what it waits for, on one line."""
    status = each.status
    if status is None:
        return proposals.phase_of(each)
    parts = [proposals.phase_of(each)]
    if status.progress:
        total = proposals.size(sum(move.bytes for move in each.spec.moves))
        parts.append(f"{status.progress} moves, {proposals.size(status.moved_bytes or 0)} of {total}")
    if status.eta and not proposals.is_over(each):
        parts.append(f"until {status.eta}")
    return ", ".join(parts) + (f". {status.message}" if status.message else "")

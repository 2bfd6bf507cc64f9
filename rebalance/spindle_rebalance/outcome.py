"""Result of a run for the operator: the pod's termination message, which the operator copies to the KafkaCluster's condition."""

import json
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PATH: Final = Path("/dev/termination-log")
_MOST: Final = 4096  # the kubelet's limit in bytes
_LINES: Final = 20
_LINE: Final = 300  # characters of a log line in the message
_CUT: Final = " …"


@dataclass(frozen=True)
class Outcome:
    """Result for one cluster, or for the whole run.

    Attributes:
        cluster: ``namespace/cluster``; empty for the run as a whole.
        reason: reason of the condition, in CamelCase.
        message: the result as a sentence.
        failed: whether the run failed.
        proposal: name of the KafkaRebalance, if there is one.
    """

    cluster: str
    reason: str
    message: str
    failed: bool = False
    proposal: str = ""


class Tail(logging.Handler):
    """Keeps the last lines of the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage().splitlines()[0][:_LINE] if record.getMessage() else "")


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """Combine several outcomes into one; failures come first."""
    if len(outcomes) == 1:
        return outcomes[0]
    failed = [o for o in outcomes if o.failed]
    parts = "; ".join(f"{o.cluster}: {o.message}" for o in [*failed, *(o for o in outcomes if not o.failed)])
    if failed:
        return Outcome(
            "", failed[0].reason, f"{len(failed)} of {len(outcomes)} clusters failed: {parts}", failed=True
        )
    return Outcome("", outcomes[0].reason if len({o.reason for o in outcomes}) == 1 else "Planned", parts)


def message(outcome: Outcome, tail: Sequence[str]) -> str:
    """JSON of at most 4 kB: ``reason``, ``message``, ``proposal``, and after a failure ``lines``, the last log lines."""
    lines, text = list(tail) if outcome.failed else [], outcome.message
    while True:
        document: dict[str, Any] = {"reason": outcome.reason, "message": text}
        if outcome.proposal:
            document["proposal"] = outcome.proposal
        if lines:
            document["lines"] = lines
        made = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        over = len(made.encode()) - _MOST
        if over <= 0:
            return made
        if lines:
            lines = lines[1:]
        else:
            text = text[: max(0, len(text) - max(over, 16) - len(_CUT))] + _CUT


def tell(outcome: Outcome, tail: Sequence[str], path: Path = PATH) -> None:
    """Write the message; outside a pod there is no such file, so nothing is written."""
    if path.exists():
        path.write_text(message(outcome, tail), encoding="utf-8")

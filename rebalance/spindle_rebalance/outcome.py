"""What a run came to, for the operator: the pod's termination message, which ends up in the KafkaCluster's condition."""

import json
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PATH: Final = Path("/dev/termination-log")
_MOST: Final = 4096  # bytes that the kubelet keeps of it
_LINES: Final = 20
_LINE: Final = 300  # characters of a line of the tail
_CUT: Final = " …"


@dataclass(frozen=True)
class Outcome:
    """What became of one cluster, or of the run.

    Attributes:
        cluster: ``namespace/cluster``; empty for the run as a whole.
        reason: one word in CamelCase.
        message: a sentence.
        failed: whether the run could not do what it is for.
        proposal: name of the KafkaRebalance, if there is one.
    """

    cluster: str
    reason: str
    message: str
    failed: bool = False
    proposal: str = ""


class Tail(logging.Handler):
    """Remembers the last lines of the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage().splitlines()[0][:_LINE] if record.getMessage() else "")


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome of several; what failed goes first."""
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
    """JSON of at most 4 kB: ``reason``, ``message``, ``proposal``, and where it failed ``lines``, the last of the log."""
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
    """Write the message, if there is somebody to read it: outside of a pod there is no such file."""
    if path.exists():
        path.write_text(message(outcome, tail), encoding="utf-8")

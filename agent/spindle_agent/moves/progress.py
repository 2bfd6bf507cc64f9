"""The requested moves and their progress, in memory and in the status."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from spindle.api.enums import DirMoveState
from spindle_agent.broker.client import Copy, Replica

GIVE_UP: Final = 600.0  # seconds without progress
ATTEMPTS: Final = 5  # refusals by the broker after which a move fails
_RETRY: Final = 10.0  # seconds after a refusal, times the number of refusals
_WINDOW: Final = 30.0  # seconds over which a rate is averaged
_APART: Final = 2.0  # seconds between the samples that are kept for the rate


@dataclass(frozen=True)
class Move:
    """One entry of ``spec.moves``."""

    topic: str
    partition: int
    from_dir: str
    to_dir: str

    @property
    def replica(self) -> Replica:
        """The replica to move."""
        return self.topic, self.partition


@dataclass(frozen=True)
class Sample:
    """One observation of a copy.

    Attributes:
        at: seconds of the monotonic clock.
        copied: bytes copied.
        left: bytes left to copy.
    """

    at: float
    copied: int
    left: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of one move. Times are seconds of the monotonic clock.

    Attributes:
        size, copied, lag: bytes of the original and of the copy, and offsets between them; None while unknown.
        nearest: smallest number of missing bytes and smallest lag so far; None before the first observation.
        nearer_at: when the copy last made progress, or started.
        attempts: number of refusals by the broker.
        not_before: time of the next attempt.
        samples: observations of the copy in the last half minute.
    """

    state: DirMoveState = DirMoveState.QUEUED
    message: str = ""
    size: int | None = None
    copied: int | None = None
    lag: int | None = None
    nearest: tuple[int, int] | None = None
    nearer_at: float = 0.0
    attempts: int = 0
    not_before: float = 0.0
    samples: tuple[Sample, ...] = ()

    @property
    def rate(self) -> float | None:
        """Recent bytes per second; None if not known yet."""
        span = self._span()
        return None if span is None else max(0, self.samples[-1].copied - self.samples[0].copied) / span

    @property
    def ends_at(self) -> float | None:
        """Estimated end; None if unknown or without progress."""
        span = self._span()
        if span is None:
            return None
        first, last = self.samples[0], self.samples[-1]
        nearer = (first.left - last.left) / span
        return last.at + last.left / nearer if nearer > 0 else None

    def _span(self) -> float | None:
        span = self.samples[-1].at - self.samples[0].at if self.samples else 0.0
        return span if span >= _APART else None


def wanted(spec: Mapping[str, Any]) -> tuple[Move, ...]:
    """``spec.moves`` of a KafkaBroker."""
    return tuple(_move(each) for each in spec.get("moves") or ())


def remembered(observed: Mapping[str, Any], now: float) -> dict[Move, Progress]:
    """Moves of a previous agent, from ``status.observed.moves``."""
    return {
        _move(each): Progress(
            state=DirMoveState(each["state"]),
            message=str(each.get("message", "")),
            size=each.get("bytes"),
            copied=each.get("copied"),
            lag=each.get("lagOffsets"),
            nearer_at=now,
        )
        for each in observed.get("moves") or ()
    }


def _move(entry: Mapping[str, Any]) -> Move:
    return Move(str(entry["topic"]), int(entry["partition"]), str(entry["fromDir"]), str(entry["toDir"]))


def begun(progress: Progress, now: float) -> Progress:
    """Progress after the broker accepted the move."""
    return replace(
        progress, state=DirMoveState.COPYING, message="", copied=0, nearest=None, nearer_at=now, samples=()
    )


def refused(progress: Progress, reason: str, now: float) -> Progress:
    """Progress after the broker refused the move."""
    attempts = progress.attempts + 1
    if attempts >= ATTEMPTS:
        return failed(
            replace(progress, attempts=attempts), f"The broker refused it {attempts} times: {reason}."
        )
    return replace(
        waits(progress, f"The broker refused it: {reason}. The agent tries it again."),
        attempts=attempts,
        not_before=now + _RETRY * attempts,
    )


def failed(progress: Progress, why: str) -> Progress:
    """The move has failed. The operator decides whether and when to request it again."""
    return replace(progress, state=DirMoveState.FAILED, message=why, samples=())


def waits(progress: Progress, why: str) -> Progress:
    """Not started, with the reason."""
    return replace(
        progress, state=DirMoveState.QUEUED, message=why, copied=None, lag=None, nearest=None, samples=()
    )


def arrived(progress: Progress, size: int) -> Progress:
    """The move is done, regardless of its previous state."""
    return replace(
        progress,
        state=DirMoveState.DONE,
        message="",
        size=size,
        copied=size,
        lag=None,
        nearest=None,
        samples=(),
    )


def copying(before: Progress, copy: Copy, now: float) -> Progress:
    """Progress after an observation of a running copy; fails if it made no progress for too long.

    The remaining bytes count, not the copied ones: the copy of a log that is written faster than it is copied never ends.
    """
    size = before.size or 0
    left, lag = max(0, size - copy.size), max(0, copy.lag)
    nearest = before.nearest if before.state is DirMoveState.COPYING else None
    nearer = nearest is None or left < nearest[0] or lag < nearest[1]
    made = replace(
        before,
        state=DirMoveState.COPYING,
        message="",
        copied=copy.size,
        lag=lag,
        nearest=(left, lag) if nearest is None else (min(left, nearest[0]), min(lag, nearest[1])),
        nearer_at=now if nearer else before.nearer_at,
        samples=_sampled(before.samples, Sample(now, copy.size, left)),
    )
    if now - made.nearer_at < GIVE_UP:
        return made
    speed = f", recently at {made.rate:.0f} bytes per second" if made.rate else ""
    return failed(
        made,
        f"Cancelled: no progress for {GIVE_UP / 60:.0f} minutes; {copy.size} of {size} bytes are copied{speed}.",
    )


def excused(known: Mapping[Move, Progress], seconds: float) -> dict[Move, Progress]:
    """After a time without observations, which does not count as lack of progress."""
    return {move: replace(each, nearer_at=each.nearer_at + seconds) for move, each in known.items()}


def _sampled(samples: tuple[Sample, ...], latest: Sample) -> tuple[Sample, ...]:
    if samples and latest.copied < samples[-1].copied:
        return (latest,)  # it was started again
    # The latest observation always counts; of the earlier ones one every few seconds is enough.
    kept = samples[:-1] if len(samples) > 1 and samples[-1].at - samples[-2].at < _APART else samples
    return (*(each for each in kept if latest.at - each.at <= _WINDOW), latest)


def entries(
    moves: Iterable[Move], progress: Mapping[Move, Progress], clock: float = 0.0
) -> list[dict[str, Any]]:
    """``status.observed.moves``; cancelled moves stay in it while their copy exists.

    Args:
        moves: requested moves in order.
        progress: of these and other moves.
        clock: seconds since the epoch at second 0 of the monotonic clock.
    """
    shown = dict.fromkeys((*moves, *progress))
    return [_entry(move, progress.get(move, Progress()), clock) for move in shown]


def under_way(progress: Mapping[Move, Progress]) -> bool:
    """Whether any move is unfinished."""
    return any(each.state in (DirMoveState.QUEUED, DirMoveState.COPYING) for each in progress.values())


def _entry(move: Move, progress: Progress, clock: float) -> dict[str, Any]:
    rate, ends_at = progress.rate, progress.ends_at
    fields = {
        "topic": move.topic,
        "partition": move.partition,
        "fromDir": move.from_dir,
        "toDir": move.to_dir,
        "state": progress.state.value,
        "bytes": progress.size,
        "copied": progress.copied,
        "bytesPerSecond": None if rate is None else round(rate),
        "eta": None if ends_at is None else _stamp(clock + ends_at),
        "lagOffsets": progress.lag,
        "message": progress.message or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _stamp(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # an end thousands of years from now
        return None

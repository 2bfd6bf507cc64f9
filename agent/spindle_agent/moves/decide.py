"""What to do next about the moves that are wanted, from what the broker shows; nothing is asked or done here.

Where a move stands is Kafka's to say: a copy that exists is under way, a replica that is in its dir has arrived. What is
remembered besides (which copies are ours, when one last grew) is small, and most of it stands in the status too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from spindle_agent.broker.link import Copy, LogDir, Replica, offline

AT_ONCE: Final = 2  # copies per broker
GIVE_UP: Final = 600.0  # seconds without progress
ATTEMPTS: Final = 5  # refusals by the broker after which a move has failed
REST: Final = 600.0  # seconds after which a move that failed, and is still wanted, is tried anew
_RETRY: Final = 10.0  # seconds after a refusal, times the number of refusals


class State(StrEnum):
    """How far a move is."""

    QUEUED = "Queued"
    COPYING = "Copying"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True)
class Move:
    """One entry of ``spec.moves``."""

    topic: str
    partition: int
    from_dir: str
    to_dir: str

    @property
    def replica(self) -> Replica:
        """What is moved."""
        return self.topic, self.partition


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known of one move.

    Attributes:
        size, copied, lag: bytes of the original and of the copy, and offsets between them; None while unknown.
        grown_at: when the copy last came nearer, or began.
        attempts: how often the broker refused.
        not_before: when to try again.
    """

    state: State = State.QUEUED
    message: str = ""
    size: int | None = None
    copied: int | None = None
    lag: int | None = None
    grown_at: float = 0.0
    attempts: int = 0
    not_before: float = 0.0


@dataclass(frozen=True)
class Decision:
    """What comes next.

    Attributes:
        progress: of every move that is wanted, in order, and of those no longer wanted whose copy is still there.
        cancel: replica → dir where it is; to be asked for before anything begins.
        begin: moves to start now.
    """

    progress: Mapping[Move, Progress]
    cancel: Mapping[Replica, str] = field(default_factory=dict)
    begin: tuple[Move, ...] = ()


def wanted(spec: Mapping[str, Any]) -> tuple[Move, ...]:
    """``spec.moves`` of a KafkaBroker."""
    return tuple(
        Move(str(each["topic"]), int(each["partition"]), str(each["fromDir"]), str(each["toDir"]))
        for each in spec.get("moves") or ()
    )


def remembered(observed: Mapping[str, Any], now: float) -> dict[Move, Progress]:
    """What ``status.observed.moves`` says of moves that an agent before this one has taken on."""
    found = {}
    for each in observed.get("moves") or ():
        move = Move(str(each["topic"]), int(each["partition"]), str(each["fromDir"]), str(each["toDir"]))
        found[move] = Progress(
            state=State(each["state"]),
            message=str(each.get("message", "")),
            size=each.get("bytes"),
            copied=each.get("copied"),
            lag=each.get("lagOffsets"),
            grown_at=now,
            not_before=now + REST if each["state"] == State.FAILED else 0.0,
        )
    return found


def decide(
    moves: Sequence[Move], known: Mapping[Move, Progress], dirs: Sequence[LogDir], now: float
) -> Decision:
    """What to cancel and what to begin.

    Args:
        moves: that are wanted, in order.
        known: of all moves that were wanted before, too.
        dirs: all log dirs of the broker as it tells them now.
        now: seconds of the monotonic clock.
    """
    board = _Board(dirs, now)
    progress: dict[Move, Progress] = {}
    cancel: dict[Replica, str] = {}
    for move in moves:
        made = board.stands(move, known.get(move, Progress(grown_at=now)))
        progress[move] = made
        copy_dir = board.copy_dir(move.replica)
        if made.state is State.FAILED and copy_dir == move.to_dir:
            cancel |= board.back(move.replica)
    for move in known.keys() - progress.keys():
        if board.copy_dir(move.replica) != move.to_dir or known[move].state is State.DONE:
            continue
        if not any(other.replica == move.replica and other.to_dir == move.to_dir for other in moves):
            cancel |= board.back(move.replica)
            progress[move] = replace(known[move], message="No longer wanted.")
    return Decision(progress, cancel, board.startable(moves, progress, cancel))


def refused(progress: Progress, reason: str, now: float) -> Progress:
    """After the broker refused to begin."""
    attempts = progress.attempts + 1
    if attempts >= ATTEMPTS:
        return replace(
            progress,
            state=State.FAILED,
            attempts=attempts,
            message=f"The broker refused it {attempts} times: {reason}.",
            not_before=now + REST,
        )
    return replace(
        progress,
        state=State.QUEUED,
        attempts=attempts,
        not_before=now + _RETRY * attempts,
        message=f"The broker refused it: {reason}. It is tried again.",
    )


def begun(progress: Progress, now: float) -> Progress:
    """After the broker agreed to begin."""
    return replace(progress, state=State.COPYING, message="", copied=0, grown_at=now)


def entries(moves: Iterable[Move], progress: Mapping[Move, Progress]) -> list[dict[str, Any]]:
    """``status.observed.moves``; moves that are given up stay in it while their copy is there."""
    shown = [*moves, *(move for move in progress if move not in set(moves))]
    return [_entry(move, progress.get(move, Progress())) for move in shown]


def under_way(progress: Mapping[Move, Progress]) -> bool:
    """Whether anything is left to do."""
    return any(each.state in (State.QUEUED, State.COPYING) for each in progress.values())


def _entry(move: Move, progress: Progress) -> dict[str, Any]:
    fields = {
        "topic": move.topic,
        "partition": move.partition,
        "fromDir": move.from_dir,
        "toDir": move.to_dir,
        "state": progress.state.value,
        "bytes": progress.size,
        "copied": progress.copied,
        "lagOffsets": progress.lag,
        "message": progress.message or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


class _Board:
    """What the broker shows, by replica."""

    def __init__(self, dirs: Sequence[LogDir], now: float) -> None:
        self._now = now
        gone = ", ".join(sorted(offline(dirs)))
        self._held = f"The broker refuses moves while {gone} is offline." if gone else ""
        self._live = {each.path for each in dirs if not each.error}
        self._home: dict[Replica, tuple[str, int]] = {
            replica: (each.path, size) for each in dirs for replica, size in each.replicas.items()
        }
        self._copies: dict[Replica, tuple[str, Copy]] = {
            replica: (each.path, copy) for each in dirs for replica, copy in each.copies.items()
        }

    def copy_dir(self, replica: Replica) -> str | None:
        return self._copies[replica][0] if replica in self._copies else None

    def back(self, replica: Replica) -> dict[Replica, str]:
        """What to ask for so that a copy is given up."""
        home = self._home.get(replica)
        return {replica: home[0]} if home is not None else {}

    def stands(self, move: Move, before: Progress) -> Progress:
        """How far one move is."""
        home, copy = self._home.get(move.replica), self._copies.get(move.replica)
        if home is not None and home[0] == move.to_dir:
            return replace(
                before,
                state=State.DONE,
                message="",
                size=home[1],
                copied=home[1],
                lag=None,
                grown_at=self._now,
            )
        if before.state is State.FAILED:
            if self._now < before.not_before:
                return before
            before = Progress(grown_at=self._now)
        if home is None:
            return _waits(before, self._held or "The broker shows the replica on none of its dirs.")
        before = replace(before, size=home[1])
        if copy is not None and copy[0] == move.to_dir:
            return self._copying(before, copy[1])
        if copy is not None:
            return _waits(before, f"A copy of it to {copy[0]} is under way.")
        if self._held:
            return _waits(before, self._held)
        if move.to_dir not in self._live:
            return replace(
                before,
                state=State.FAILED,
                message=f"The broker has no log dir {move.to_dir}.",
                not_before=self._now + REST,
            )
        if before.state is not State.QUEUED:
            return refused(before, "its copy vanished", self._now)
        return before

    def _copying(self, before: Progress, copy: Copy) -> Progress:
        nearer = (
            before.state is not State.COPYING
            or copy.size > (before.copied or 0)
            or before.lag is None
            or copy.lag < before.lag
        )
        made = replace(
            before,
            state=State.COPYING,
            message="",
            copied=copy.size,
            lag=max(0, copy.lag),
            grown_at=self._now if nearer else before.grown_at,
        )
        if self._now - made.grown_at < GIVE_UP:
            return made
        return replace(
            made,
            state=State.FAILED,
            message=f"Given up: no progress for {GIVE_UP / 60:.0f} minutes, {copy.size} of {made.size} bytes copied.",
            not_before=self._now + REST,
        )

    def startable(
        self, moves: Sequence[Move], progress: Mapping[Move, Progress], cancel: Mapping[Replica, str]
    ) -> tuple[Move, ...]:
        """The next moves to begin, within what may run at once; none while a dir is offline (rule 6)."""
        if self._held:
            return ()
        room = AT_ONCE - len(self._copies.keys() - cancel.keys())
        taken = set(self._copies)
        chosen: list[Move] = []
        for move in moves:
            made = progress[move]
            free = move.replica not in taken and move.replica in self._home
            if len(chosen) < room and free and made.state is State.QUEUED and made.not_before <= self._now:
                chosen.append(move)
                taken.add(move.replica)
        return tuple(chosen)


def _waits(before: Progress, why: str) -> Progress:
    return replace(before, state=State.QUEUED, message=why, copied=None, lag=None)

"""Decides the next steps for the requested moves from the broker's state. Sends no requests.

Kafka's state decides how far a move is: an existing future replica is a running copy, a replica in its target dir has arrived. The additional
state (which copies Spindle started, when one last made progress) is small, and most of it is in the status too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spindle.api.enums import DirMoveState
from spindle_agent.broker.client import Copy, LogDir, Replica, offline
from spindle_agent.moves import progress as progresses
from spindle_agent.moves.progress import Move, Progress

AT_ONCE: Final = 2  # copies per broker

Limit = Callable[[int], int]  # size of a file system → used bytes above which nothing may be moved in


def nine_tenths(total: int) -> int:
    """The default limit."""
    return total * 9 // 10


@dataclass(frozen=True)
class Decision:
    """The next steps.

    Attributes:
        progress: of every requested move, in order, and of moves no longer requested whose copy still exists.
        cancel: replica → its current dir; to be requested before any move starts.
        begin: moves to start now.
        busy: paths of the dirs that are currently copied from or to, including copies started by others.
    """

    progress: Mapping[Move, Progress]
    cancel: Mapping[Replica, str] = field(default_factory=dict)
    begin: tuple[Move, ...] = ()
    busy: frozenset[str] = frozenset()


def decide(
    moves: Sequence[Move],
    known: Mapping[Move, Progress],
    dirs: Sequence[LogDir],
    now: float,
    limit: Limit = nine_tenths,
) -> Decision:
    """Decide what to cancel and what to start.

    Args:
        moves: requested moves in order; of those that leave the same dir, the first starts first.
        known: progress of all moves, including those requested before.
        dirs: all log dirs of the broker as it currently reports them.
        now: seconds of the monotonic clock.
        limit: maximum usage of a target dir ("no overfull target", docs/safety.md).
    """
    board = _Board(dirs, now, limit)
    progress: dict[Move, Progress] = {}
    cancel: dict[Replica, str] = {}
    for move in moves:
        made = board.stands(move, known.get(move, Progress(nearer_at=now)))
        progress[move] = made
        if made.state is DirMoveState.FAILED and board.copy_dir(move.replica) == move.to_dir:
            cancel |= board.back(move.replica)
    for move in known.keys() - progress.keys():
        if board.copy_dir(move.replica) != move.to_dir or known[move].state is DirMoveState.DONE:
            continue
        if not any(other.replica == move.replica and other.to_dir == move.to_dir for other in moves):
            cancel |= board.back(move.replica)
            progress[move] = replace(known[move], message="No longer requested.")
    begin, full = board.startable(moves, progress, cancel)
    for move, why in full.items():
        progress[move] = progresses.waits(progress[move], why)
    return Decision(progress, cancel, begin, board.busy())


class _Board:
    """The broker's state by replica."""

    def __init__(self, dirs: Sequence[LogDir], now: float, limit: Limit) -> None:
        self._now, self._limit = now, limit
        gone = ", ".join(sorted(offline(dirs)))
        self._held = f"The broker refuses moves while it has an offline log dir ({gone})." if gone else ""
        self._live = {each.path: each for each in dirs if not each.error}
        self._home: dict[Replica, tuple[str, int]] = {
            replica: (each.path, size) for each in dirs for replica, size in each.replicas.items()
        }
        self._copies: dict[Replica, tuple[str, Copy]] = {
            replica: (each.path, copy) for each in dirs for replica, copy in each.copies.items()
        }

    def copy_dir(self, replica: Replica) -> str | None:
        return self._copies[replica][0] if replica in self._copies else None

    def back(self, replica: Replica) -> dict[Replica, str]:
        """The request that cancels a replica's copy."""
        home = self._home.get(replica)
        return {replica: home[0]} if home is not None else {}

    def busy(self) -> frozenset[str]:
        homes = {self._home[replica][0] for replica in self._copies if replica in self._home}
        return frozenset(homes | {path for path, _ in self._copies.values()})

    # State of one move

    def stands(self, move: Move, before: Progress) -> Progress:
        home, copy = self._home.get(move.replica), self._copies.get(move.replica)
        if home is not None and home[0] == move.to_dir:
            return progresses.arrived(before, home[1])
        if before.state is DirMoveState.FAILED:
            return before
        if home is None:
            return progresses.waits(
                before, self._held or "The broker reports the replica on none of its log dirs."
            )
        before = replace(before, size=home[1])
        if copy is not None and copy[0] == move.to_dir:
            made = progresses.copying(before, copy[1], self._now)
            why = self._fills(move, made)
            return progresses.failed(made, why) if why and made.state is DirMoveState.COPYING else made
        if copy is not None:
            return progresses.waits(before, f"A copy of it to {copy[0]} is running.")
        if self._held:
            return progresses.waits(before, self._held)
        if move.to_dir not in self._live:
            return progresses.failed(before, f"The broker has no log dir {move.to_dir}.")
        if before.state is not DirMoveState.QUEUED:
            return progresses.refused(before, "its copy disappeared", self._now)
        return before if self._now < before.not_before else replace(before, message="")

    def _fills(self, move: Move, made: Progress) -> str:
        """Why a copy must be cancelled: something else has filled its target dir. Half of the space above the limit is kept free."""
        target = self._live.get(move.to_dir)
        if target is None or target.total_bytes is None or target.usable_bytes is None:
            return ""
        last = (self._limit(target.total_bytes) + target.total_bytes) // 2
        used = target.total_bytes - target.usable_bytes
        if used + self._to_come(move.to_dir) <= last:
            return ""
        left = max(0, (made.size or 0) - (made.copied or 0))
        return f"Cancelled: {move.to_dir} is too full; {left} bytes are left to copy, {target.usable_bytes} of {target.total_bytes} bytes are free."

    def _to_come(self, path: str, without: frozenset[Replica] = frozenset()) -> int:
        """Bytes that running copies will still add to a dir."""
        return sum(
            max(0, self._home[replica][1] - copy.size)
            for replica, (to, copy) in self._copies.items()
            if to == path and replica in self._home and replica not in without
        )

    # Moves to start

    def startable(
        self, moves: Sequence[Move], progress: Mapping[Move, Progress], cancel: Mapping[Replica, str]
    ) -> tuple[tuple[Move, ...], dict[Move, str]]:
        """The next moves to start, up to the number of parallel copies, and those that must wait for space, with the reason.

        No move starts while a dir is offline ("no conflicting move", docs/safety.md). Moves that free the fullest dir come first; replicas that are leaving it count as gone.
        """
        if self._held:
            return (), {}
        room = AT_ONCE - len(self._copies.keys() - cancel.keys())
        taken, chosen, full = set(self._copies), list[Move](), dict[Move, str]()
        incoming = {path: self._to_come(path, frozenset(cancel)) for path in self._live}
        leaving = dict.fromkeys(self._live, 0)
        for replica in self._copies.keys() - cancel.keys():
            if replica in self._home:
                leaving[self._home[replica][0]] += self._home[replica][1]
        able = [
            move
            for move in moves
            if progress[move].state is DirMoveState.QUEUED and progress[move].not_before <= self._now
        ]
        while len(chosen) < room:
            free = [m for m in able if m.replica not in taken and m.replica in self._home and m not in full]
            if not free:
                break
            # max() returns the first of equals, which keeps the order of moves that leave the same dir.
            move = max(free, key=lambda m: self._fill(self._home[m.replica][0], leaving))
            home, size = self._home[move.replica]
            why = self._no_room(move, size, incoming[move.to_dir])
            if why:
                full[move] = why
                continue
            chosen.append(move)
            taken.add(move.replica)
            incoming[move.to_dir] += size
            leaving[home] += size
        return tuple(chosen), full

    def _fill(self, path: str, leaving: Mapping[str, int]) -> float:
        """Used share of a dir without the replicas that are leaving it; 0 if unknown."""
        found = self._live.get(path)
        if found is None or not found.total_bytes or found.usable_bytes is None:
            return 0.0
        return (found.total_bytes - found.usable_bytes - leaving.get(path, 0)) / found.total_bytes

    def _no_room(self, move: Move, size: int, incoming: int) -> str:
        target = self._live[move.to_dir]
        if target.total_bytes is None or target.usable_bytes is None:
            return ""
        limit = self._limit(target.total_bytes)
        used = target.total_bytes - target.usable_bytes
        if used + incoming + size <= limit:
            return ""
        return (
            f"It waits for space: {move.to_dir} would hold {used + incoming + size} of {target.total_bytes} bytes, "
            f"but moves may fill it to {limit} bytes only."
        )

"""Carries out the decisions of `decide` and `pace` for one broker.

The agent reports the copy rate that it wants in the status, and the operator sets the throttle (`spindle.moves.between_dirs`). No copy starts
without a throttle. A throttle set by a user is respected.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import quantity
from spindle.api.enums import DirMoveState, Pressure
from spindle.moves import between_dirs
from spindle.moves.rate_control import RateBounds
from spindle_agent.broker.client import KafkaClient, LogDir
from spindle_agent.moves import decide, progress
from spindle_agent.moves.decide import Decision
from spindle_agent.moves.pace import Pace
from spindle_agent.moves.progress import Move, Progress

log = logging.getLogger(__name__)

_UNTHROTTLED: Final = (
    "It waits until the operator has set the throttle for moves between this broker's log dirs."
)
_SILENCE: Final = (
    30.0  # seconds between two polls above which a lack of progress does not count against the copies
)


@dataclass(frozen=True)
class MoveOrders:
    """The operator's settings for a broker's moves, from the KafkaBroker's spec.

    Attributes:
        bounds: minimum and maximum bytes per second for all moves together; None for no throttle.
        refuse_percent, refuse_free: a move must not fill its target dir above this percentage, or leave fewer bytes free.
    """

    moves: tuple[Move, ...] = ()
    bounds: RateBounds | None = None
    refuse_percent: int = 90
    refuse_free: int = 0

    def limit(self, total: int) -> int:
        """Maximum used bytes of a target file system of this size."""
        return min(total * self.refuse_percent // 100, total - self.refuse_free)


def read_orders(spec: Mapping[str, Any]) -> MoveOrders:
    """Read a KafkaBroker's spec."""
    most, least = spec.get("throttleBytesPerSecond"), spec.get("throttleBytesPerSecondMin")
    thresholds = spec.get("thresholds") or {}
    try:
        free = quantity.whole((thresholds.get("free") or {}).get("rejectMoves") or 0)
    except ValueError:  # then only the percentage counts; the operator reports the error
        free = 0
    return MoveOrders(
        moves=progress.wanted(spec),
        bounds=None if most is None else RateBounds.of(least, most),
        refuse_percent=int(thresholds.get("rejectMoves", MoveOrders.refuse_percent)),
        refuse_free=free,
    )


class Mover:
    """The moves of one broker. All essential state is in Kafka, in the spec and in the status."""

    def __init__(self, name: str, observed: Mapping[str, Any]) -> None:
        """Create a mover that continues where the previous one stopped.

        Args:
            name: name of the broker, for the log.
            observed: the current ``status.observed``.
        """
        self._name = name
        self._known: dict[Move, Progress] = progress.remembered(observed, time.monotonic())
        self._orders = MoveOrders(tuple(self._known))
        self._former = between_dirs.record(observed)  # set by an agent of an earlier version
        self._pace = Pace(between_dirs.wanted(observed))
        self._looked_at: float | None = None
        self._complained: frozenset[str] = frozenset()
        self._clock = time.time() - time.monotonic()
        self.throttle: int | None = None  # requested bytes per second
        self.ready = True

    @property
    def busy(self) -> bool:
        """Whether there is anything to do or to restore."""
        return progress.under_way(self._known) or self._former is not None

    @property
    def moves(self) -> Mapping[Move, Progress]:
        """Progress of each move."""
        return self._known

    def wants(self, wanted: MoveOrders) -> None:
        """Take over the operator's current settings."""
        self._orders = wanted

    def fields(self) -> dict[str, Any]:
        """``moves`` and ``throttle`` of ``status.observed``."""
        moves = progress.entries(self._orders.moves, self._known, self._clock)
        fields: dict[str, Any] = {"moves": moves}
        told = {} if self._former is None else self._former.entry()
        if self.throttle is not None:
            told |= {
                "wantedBytesPerSecond": self.throttle,
                "pressure": self._pace.felt.label,
            }
        return fields | {"throttle": told} if told else fields

    async def step(
        self,
        link: KafkaClient,
        dirs: Sequence[LogDir],
        felt: Mapping[str, Pressure],
        tell: Callable[[], None],
    ) -> None:
        """Update all moves and carry out the next steps. Raises BrokerError.

        Args:
            link: connection to the broker.
            dirs: its log dirs as just reported.
            felt: path of a log dir → I/O pressure of its disk; unknown ones may be left out.
            tell: called when the status has to be updated.
        """
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at > _SILENCE:
            self._known = progress.excused(self._known, now - self._looked_at)
        self._looked_at = now
        if not self._orders.moves and not self._known and self._former is None:
            self._rest(tell)  # without going through thousands of replicas
            return
        decision = decide.decide(self._orders.moves, self._known, dirs, now, self._orders.limit)
        self._log_changes(decision)
        self._known = dict(decision.progress)
        if not self._known and self._former is None:
            self._rest(tell)
            return
        if not self.ready:
            self._hold_back(decision.begin)
        tell()
        await self._give_up(link, decision)
        self.ready = await self._throttled(link, dirs, felt, decision.busy)
        if not self.ready:
            self._hold_back(decision.begin)
        elif decision.begin:
            await self._begin(link, decision.begin)
        tell()

    def _rest(self, tell: Callable[[], None]) -> None:
        self.ready, self.throttle = True, None
        self._pace.rests()
        tell()

    def _hold_back(self, moves: Sequence[Move]) -> None:
        self._known |= {move: progress.waits(self._known[move], _UNTHROTTLED) for move in moves}

    async def _give_up(self, link: KafkaClient, decision: Decision) -> None:
        """Cancel copies. If the broker refuses, the request is repeated, but logged only once."""
        answers = (await link.move(decision.cancel)).items() if decision.cancel else ()
        found = frozenset(
            f"{topic}-{partition} cannot be cancelled: {why}" for (topic, partition), why in answers
        )
        for complaint in sorted(found - self._complained):
            log.warning("%s: the copy of %s", self._name, complaint)
        self._complained = found

    async def _begin(self, link: KafkaClient, moves: Sequence[Move]) -> None:
        no = await link.move({move.replica: move.to_dir for move in moves})
        now = time.monotonic()
        for move in moves:
            before = self._known[move]
            why = no.get(move.replica)
            if why is None:
                log.info(
                    "%s: moving %s-%d from %s to %s", self._name, *move.replica, move.from_dir, move.to_dir
                )
                self._known[move] = progress.begun(before, now)
            else:
                self._known[move] = progress.refused(before, why, now)
                log.warning("%s: %s-%d: %s", self._name, *move.replica, self._known[move].message)

    async def _throttled(
        self, link: KafkaClient, dirs: Sequence[LogDir], felt: Mapping[str, Pressure], busy: Iterable[str]
    ) -> bool:
        """Report the wanted copy rate; returns whether moves may start."""
        bounds = self._orders.bounds if progress.under_way(self._known) else None
        if bounds is None and self._former is None:
            self.throttle = None
            return True
        current = await link.throttle(dirs)
        if self._former is not None and not self._former.standing(current):
            self._former = None  # restored, or replaced by the operator's record
        now = time.monotonic()
        if self.throttle is not None and current != str(self.throttle):
            self._pace.holds(now)  # the last rate is not in effect yet, so it is no basis for the next one
        self.throttle = self._pace.next(bounds, felt, busy, now)
        if self.throttle is not None and current != str(self.throttle):
            log.debug("%s: throttle of moves between dirs: %s, wanted %s", self._name, current, self.throttle)
        return bounds is None or current is not None

    def _log_changes(self, decision: Decision) -> None:
        for move, made in decision.progress.items():
            before = self._known.get(move)
            if (
                before is not None
                and before.state is not made.state
                and made.state is not DirMoveState.COPYING
            ):
                log.info("%s: %s-%d is %s. %s", self._name, *move.replica, made.state, made.message)

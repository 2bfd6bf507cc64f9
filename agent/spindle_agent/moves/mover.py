"""Carries out what `decide` and `throttle` say, for one broker."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spindle_agent.broker.link import Link, LogDir
from spindle_agent.moves import decide, throttle
from spindle_agent.moves.decide import Decision, Move, Progress, State

log = logging.getLogger(__name__)


class Mover:
    """The moves of one broker. All that matters survives it: in Kafka, in the spec and in the status."""

    def __init__(
        self, name: str, observed: Mapping[str, Any], written: Callable[[], Mapping[str, Any]]
    ) -> None:
        """A mover that goes on where another one left off.

        Args:
            name: of the broker, for the log.
            observed: the status as it stands.
            written: gives what was surely written to the status last.
        """
        self._name = name
        self._written = written
        self._known: dict[Move, Progress] = decide.remembered(observed, time.monotonic())
        self._moves: tuple[Move, ...] = tuple(self._known)
        self._record = throttle.read(observed)
        self.ready = True

    @property
    def busy(self) -> bool:
        """Whether there is anything to do or to put back."""
        return decide.under_way(self._known) or self._record is not None

    @property
    def moves(self) -> Mapping[Move, Progress]:
        """How far each is."""
        return self._known

    def wants(self, moves: tuple[Move, ...]) -> None:
        """What ``spec.moves`` asks for now."""
        self._moves = moves

    def fields(self) -> dict[str, Any]:
        """``moves`` and ``throttle`` of ``status.observed``."""
        fields: dict[str, Any] = {"moves": decide.entries(self._moves, self._known)}
        if self._record is not None:
            fields["throttle"] = self._record.entry()
        return fields

    async def step(
        self, link: Link, dirs: Sequence[LogDir], bytes_per_second: int | None, tell: Callable[[], None]
    ) -> None:
        """Look where all moves are and do what comes next. Raises BrokerError.

        Args:
            link: the broker.
            dirs: what it said of its log dirs a moment ago.
            bytes_per_second: for all moves together; None for no throttle.
            tell: to be called when there is something new for the status.
        """
        decision = decide.decide(self._moves, self._known, dirs, time.monotonic())
        self._log_changes(decision)
        self._known = dict(decision.progress)
        if not self._known and self._record is None:
            self.ready = True
            return
        tell()
        if decision.cancel:
            for replica, why in (await link.move(decision.cancel)).items():
                log.warning("%s: the copy of %s-%d cannot be given up: %s", self._name, *replica, why)
        self.ready = await self._throttled(link, bytes_per_second, tell)
        if self.ready and decision.begin:
            await self._begin(link, decision.begin)
        tell()

    async def _begin(self, link: Link, moves: Sequence[Move]) -> None:
        no = await link.move({move.replica: move.to_dir for move in moves})
        now = time.monotonic()
        for move in moves:
            before = self._known[move]
            why = no.get(move.replica)
            if why is None:
                log.info(
                    "%s: %s-%d goes from %s to %s",
                    self._name,
                    *move.replica,
                    move.from_dir,
                    move.to_dir,
                )
                self._known[move] = decide.begun(before, now)
            else:
                self._known[move] = decide.refused(before, why, now)
                log.warning("%s: %s-%d: %s", self._name, *move.replica, self._known[move].message)

    async def _throttled(self, link: Link, wanted: int | None, tell: Callable[[], None]) -> bool:
        """See to the throttle; returns whether moves may begin."""
        moving = decide.under_way(self._known)
        if wanted is None and self._record is None:
            return True
        while True:
            current = await link.throttle()
            step = throttle.next_step(
                wanted,
                moving=moving,
                current=current,
                record=self._record,
                written=throttle.read(self._written()),
            )
            self._record = step.record
            if not step.change:
                tell()
                return step.ready
            log.info("%s: throttle of moves between dirs: %s, was %s", self._name, step.value, current)
            await link.set_throttle(step.value)
            if (await link.throttle()) == current:
                return False  # it is still on its way to the broker: look again in a moment
            if not moving:
                self._record = None

    def _log_changes(self, decision: Decision) -> None:
        for move, made in decision.progress.items():
            before = self._known.get(move)
            if before is not None and before.state is not made.state and made.state is not State.COPYING:
                log.info("%s: %s-%d is %s. %s", self._name, *move.replica, made.state, made.message)

"""The replication throttle of each broker that takes part in moves, controlled within its bounds; the only state is the journal."""

from collections.abc import Iterable

from spindle.api.enums import Pressure
from spindle.model.view import FOLLOWER_RATE, LEADER_RATE
from spindle.moves.journal import Journal, Move, SettingKey
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits
from spindle.moves.rate_control import PERIOD, RateBounds, highest, steer
from spindle.moves.signals import MoveSignals
from spindle.moves.under_replicated import UnderReplicated


class Rates:
    """Bytes per second by broker and setting. A throttle that is set is adjusted; a new one starts at the upper bound.

    Attributes:
        steered: when a rate was last changed, in seconds since the epoch; for the next journal.
    """

    def __init__(
        self,
        look: KafkaIndex,
        journal: Journal,
        limits: Limits,
        short: UnderReplicated,
        signals: MoveSignals,
        moves: Iterable[Move],
    ) -> None:
        """Read the recorded rates, and the load of the disks that the moves read and write."""
        self._standing = {
            entry.id: int(entry.ours)
            for entry in journal.settings
            if entry.key in (LEADER_RATE, FOLLOWER_RATE)
            and not entry.closing
            and entry.ours is not None
            and entry.ours.isdecimal()
        }
        self._bounds = (
            RateBounds.of(limits.least_bytes_per_second, limits.bytes_per_second)
            if limits.bytes_per_second is not None
            else None
        )
        self._turn = signals.now - journal.steered >= PERIOD
        self._now, self._short = signals.now, short
        self._felt = _felt(look, signals, moves)
        self.steered = journal.steered

    def of(self, broker: int, key: str) -> int | None:
        """The rate of one setting of a broker; None for no throttle."""
        if self._bounds is None:
            return None
        name: SettingKey = ("broker", str(broker), key)
        before = self._standing.get(name)
        rate = self._bounds.keep(self._bounds.most if before is None else before)
        if broker in self._short.below:
            rate = self._bounds.least
        elif self._turn and before is not None:
            felt = self._felt.get(broker, Pressure.CALM)
            rate = steer(rate, self._bounds, max(felt, Pressure.BUSY) if broker in self._short.near else felt)
        if before is not None and rate != before:
            self.steered = self._now
        return rate


def _felt(look: KafkaIndex, signals: MoveSignals, moves: Iterable[Move]) -> dict[int, Pressure]:
    """By broker: the load of its disks that are written to, or read from as the leader's."""
    touched: dict[int, set[str]] = {}
    for move in moves:
        partition = look.partitions.get(move.key)
        if partition is None or move.within:
            continue
        leader = move.target if partition.leader is None else partition.leader
        for broker in {move.target, leader}:
            stands = look.standing(broker, move.key)
            path = stands.path if stands is not None else move.to_dir if broker == move.target else None
            if path is not None:
                touched.setdefault(broker, set()).add(path)
    return {
        broker: highest(signals.felt.get((broker, path), Pressure.CALM) for path in paths)
        for broker, paths in touched.items()
    }

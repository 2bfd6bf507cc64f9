"""The planning problem: what is wanted (:class:`Goals`), what may be spent (:class:`PlanBudget`), and the bands that follow.

Let ``u_d`` be the bytes on dir ``d``, ``c_d`` its capacity, and let *usable* dirs be those of live brokers that are online or
cordoned. With ``m = Σ u / Σ_usable c`` (the mean fill once everything stands on usable dirs) a dir is in its band when

    lo_d ≤ u_d ≤ hi_d,    lo_d = m (1 - β) c_d,    hi_d = min(m (1 + β), mark) c_d

with ``lo = 0`` for dirs that take nothing, and ``lo = hi = 0`` for dirs that must be emptied (draining, offline, or on a dead
broker). A broker is in its band when the sum over its dirs is within ``m (1 ± g)`` of its usable capacity. Where a
broker's dirs cannot reach that (most of them cordoned, say) its band is cut to what they can reach, and the cut is reported.
"""

from dataclasses import dataclass, field

import numpy as np

from spindle.placement.snapshot import BoolArray, DirState, FloatArray, IntArray, PlannerSnapshot

# Bands are aimed at a hair inside, so that rounding in whoever checks the plan does not decide.
_INSIDE = 1e-7


@dataclass(frozen=True)
class Goals:
    """What the plan is for, in order of priority.

    Dead dirs first, then draining ones, then racks, then marks and bands, then leaders.

    Attributes:
        dir_band: a dir is to be within this share of the mean fill.
        broker_band: the same for a broker.
        mark: no dir is to end fuller than this share of its capacity.
        incoming_limit: rule 4, at no moment may a move raise its target above this share.
        balance: whether to balance at all, or only to empty what must be emptied and to repair racks.
        even: whether dirs and brokers are to be about as full as each other; if not, only the mark counts, and nothing moves that
            stands on a dir below it.
        leader_band: leaders, and bytes produced to leaders, per broker within this share of the mean; None leaves the
            order of replicas alone.
        search: whether to look, in a small cluster, for the cheapest of all plans; that takes up to a few seconds.
        brief: look for it by the first beams alone, in tens of milliseconds: for whoever plans anew in each pass.
    """

    dir_band: float = 0.20
    broker_band: float = 0.09
    mark: float = 0.90
    incoming_limit: float = 0.90
    balance: bool = True
    even: bool = True
    leader_band: float | None = 0.10
    search: bool = True
    brief: bool = False

    def __post_init__(self) -> None:
        """Refuse goals that mean nothing."""
        for name in ("dir_band", "broker_band"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: a band lies between 0 and 1")
        for name in ("mark", "incoming_limit"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: it is a share of a dir's capacity, above 0, at most 1"
                )
        if self.leader_band is not None and self.leader_band <= 0:
            raise ValueError(f"leader_band is {self.leader_band}: it must be positive")


@dataclass(frozen=True)
class PlanBudget:
    """What the plan may cost.

    Attributes:
        max_bytes: at most so many bytes are copied.
        max_seconds: at most so long, if every broker copies ``bytes_per_second``.
        bytes_per_second: per broker, in and out alike.
        per_broker: at most so many moves of a wave touch one broker; None chooses at least 5, and as many more as keep the
            plan at about 30 waves.
        per_rack: at most so many moves of a wave go into one rack; None for ten times ``per_broker``.
    """

    max_bytes: float | None = None
    max_seconds: float | None = None
    bytes_per_second: float = 50e6
    per_broker: int | None = None
    per_rack: int | None = None

    def __post_init__(self) -> None:
        """Refuse budgets that allow nothing by mistake."""
        for name in ("max_bytes", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} is {value}: it cannot be negative")
        for name in ("bytes_per_second", "per_broker", "per_rack"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}: it must be positive")


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """A snapshot under goals: the bands, and what may give and take.

    Attributes:
        usable: bool[D], may keep what it has.
        takes: bool[D], may receive.
        live: bool[D], replicas here are live copies (draining dirs included).
        mean: fill, as a share of the usable capacity.
        lo, hi: bytes, float64[D].
        broker_lo, broker_hi: bytes, float64[B].
        limit: rule 4 in bytes, float64[D].
        no_intra: bool[B], brokers with an offline dir: no moves between their dirs (rule 6).
        racks: number of racks with a live broker.
        notes: bands that had to be cut, in sentences.
    """

    snapshot: PlannerSnapshot
    goals: Goals
    usable: BoolArray
    takes: BoolArray
    live: BoolArray
    mean: float
    lo: FloatArray
    hi: FloatArray
    broker_lo: FloatArray
    broker_hi: FloatArray
    limit: FloatArray
    no_intra: BoolArray
    racks: int
    notes: tuple[str, ...] = field(default=())

    def out_of_band(self, used: FloatArray) -> float:
        """Bytes outside the bands, summed over dirs and brokers."""
        broker = self.per_broker(used)
        dirs = np.maximum(used - self.hi, 0).sum() + np.maximum(self.lo - used, 0).sum()
        brokers = np.maximum(broker - self.broker_hi, 0).sum() + np.maximum(self.broker_lo - broker, 0).sum()
        return float(dirs + brokers)

    def outside(self, used: FloatArray) -> tuple[int, int]:
        """How many usable dirs, and how many live brokers, are outside their bands."""
        slack = 1e-6 * self.snapshot.capacity
        dirs = ((used > self.hi + slack) | (used < self.lo - slack)) & self.usable
        per, wide = self.per_broker(used), self.per_broker(slack)
        brokers = ((per > self.broker_hi + wide) | (per < self.broker_lo - wide)) & self.snapshot.alive
        return int(dirs.sum()), int(brokers.sum())

    def per_broker(self, used: FloatArray) -> FloatArray:
        """Sum over the dirs of each broker, float64[B]."""
        return np.bincount(self.snapshot.dir_broker, used, len(self.snapshot.broker)).astype(np.float64)

    def must_leave(self) -> IntArray:
        """Replicas that stand where nothing may stay, ascending."""
        return np.flatnonzero(~self.usable[self.snapshot.dir])


def build_problem(snapshot: PlannerSnapshot, goals: Goals) -> PlanningProblem:
    """Work out the bands of a snapshot."""
    s, n = snapshot, len(snapshot.broker)
    alive = s.alive[s.dir_broker]
    usable = alive & np.isin(s.dir_state, [DirState.ONLINE, DirState.CORDONED])
    takes = alive & (s.dir_state == DirState.ONLINE)
    offline = s.dir_state == DirState.OFFLINE
    capacity = s.capacity * usable
    total = float(s.used.sum())
    mean = total / float(capacity.sum()) if capacity.any() else 0.0
    # Two caps: the mark, and a band around the mean; the mark is never below what rule 4 would let in.
    top = min(mean * (1 + goals.dir_band), goals.mark) if goals.even else goals.mark
    hi = top * capacity * (1 - _INSIDE)
    lo = np.minimum(mean * (1 - goals.dir_band) * capacity * takes * (1 + _INSIDE), hi)
    lo = lo if goals.even else 0.0 * lo
    broker_capacity = np.bincount(s.dir_broker, capacity, n)
    most = np.bincount(s.dir_broker, np.where(takes, hi, np.minimum(s.used, hi)), n)
    least = np.bincount(s.dir_broker, lo, n)
    want_lo = mean * (1 - goals.broker_band) * broker_capacity * (1 + _INSIDE)
    want_hi = mean * (1 + goals.broker_band) * broker_capacity * (1 - _INSIDE)
    if not goals.even:
        want_lo, want_hi = 1.0 * least, 1.0 * most
    broker_lo, broker_hi = np.clip(want_lo, least, most), np.clip(want_hi, least, most)
    notes = [
        f"broker {s.broker[b]} can reach {most[b] / broker_capacity[b]:.1%} fill at most, because its other dirs take nothing"
        for b in np.flatnonzero((broker_lo < want_lo * (1 - _INSIDE)) & (broker_capacity > 0))
    ]
    if not takes.any():
        notes.append("no dir takes anything: every one is cordoned, draining, offline or on a dead broker")
    elif total > hi.sum() * (1 + 1e-6):
        notes.append(
            f"the cluster holds {total:.3g} bytes and its dirs {hi.sum():.3g} below the mark of {goals.mark:.0%}: "
            "no plan can bring every dir below it; add disks or delete data"
        )
    return PlanningProblem(
        snapshot=s, goals=goals, usable=usable, takes=takes, live=alive & ~offline, mean=mean, lo=lo, hi=hi,
        broker_lo=broker_lo, broker_hi=broker_hi, limit=goals.incoming_limit * s.capacity,
        no_intra=np.bincount(s.dir_broker, offline, n) > 0,
        racks=len(np.unique(s.rack[s.alive])), notes=tuple(notes),
    )  # fmt: skip

"""The planning problem: the goals (:class:`Goals`), the limits (:class:`PlanBudget`), and the bands that follow from them.

Let ``u_d`` be the bytes on dir ``d``, ``c_d`` its capacity, and let *usable* dirs be those of live brokers that are online or
cordoned. With ``m = Σ u / Σ_usable c`` (the mean usage if all bytes are on usable dirs), a dir is in its band when

    lo_d ≤ u_d ≤ hi_d,    lo_d = m (1 - β) c_d,    hi_d = min(m (1 + β), mark) c_d

with ``lo = 0`` for dirs that take no replicas, and ``lo = hi = 0`` for dirs that must be emptied (draining, offline, or on a dead
broker). A broker is in its band when the sum over its dirs is within ``m (1 ± g)`` of its usable capacity. If a
broker's dirs cannot reach that (for example because most are cordoned), its band is cut to what they can reach, and the cut is reported.
"""

from dataclasses import dataclass, field

import numpy as np

from spindle.planner.snapshot import BoolArray, DirState, FloatArray, PlannerSnapshot

# The planner uses slightly narrower bands, so that rounding errors of a checker do not put a dir out of its band.
_INSIDE = 1e-7


@dataclass(frozen=True)
class Goals:
    """The goals of a plan.

    Priority: dead dirs, draining dirs, racks, marks and bands, leaders.

    Attributes:
        dir_band: each dir ends within this share of the mean usage.
        broker_band: the same for brokers.
        mark: no dir ends above this share of its capacity.
        incoming_limit: no move raises its target above this share at any time ("no overfull target", `docs/safety.md`, rule 4).
        balance: whether to balance; if not, the plan only evacuates, drains, and restores the spread over racks.
        even: whether to bring dirs and brokers into their bands; if not, only the mark counts, and no replica moves from a dir
            below it.
        leader_band: leaders, and bytes produced to leaders, per broker end within this share of the mean; None leaves the
            order of replicas unchanged.
        search: whether to search for a cheaper plan in a small cluster, which takes up to a few seconds.
        brief: whether that search stops after the first beams, after tens of milliseconds: for callers that plan in each pass.
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
        """Raise ValueError for values out of range."""
        for name in ("dir_band", "broker_band"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: a band must be between 0 and 1")
        for name in ("mark", "incoming_limit"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: a share of a dir's capacity must be above 0 and at most 1"
                )
        if self.leader_band is not None and self.leader_band <= 0:
            raise ValueError(f"leader_band is {self.leader_band}: it must be positive")


@dataclass(frozen=True)
class PlanBudget:
    """Limits of a plan.

    Attributes:
        max_bytes: maximum number of bytes to copy.
        max_seconds: maximum duration if every broker copies ``bytes_per_second``.
        bytes_per_second: per broker, for each direction.
        per_broker: maximum number of moves of a wave that involve one broker; None chooses at least 5, and more if the plan would
            otherwise have more than about 30 waves.
        per_rack: maximum number of moves of a wave into one rack; None for ten times ``per_broker``.
    """

    max_bytes: float | None = None
    max_seconds: float | None = None
    bytes_per_second: float = 50e6
    per_broker: int | None = None
    per_rack: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values out of range."""
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
    """A snapshot with its goals: the bands, and which dirs may lose and receive replicas.

    Attributes:
        usable: bool[D], replicas may stay.
        takes: bool[D], may receive replicas.
        live: bool[D], replicas here are live (draining dirs included).
        mean: mean usage, as a share of the usable capacity.
        lo, hi: bytes, float64[D].
        broker_lo, broker_hi: bytes, float64[B].
        limit: the incoming limit in bytes, float64[D].
        no_intra: bool[B], brokers with an offline dir: no moves between their dirs ("no conflicting move", `docs/safety.md`, rule 6).
        racks: number of racks with a live broker.
        notes: one sentence for each band that was cut.
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
        """Numbers of usable dirs and of live brokers outside their bands."""
        slack = 1e-6 * self.snapshot.capacity
        dirs = ((used > self.hi + slack) | (used < self.lo - slack)) & self.usable
        per, wide = self.per_broker(used), self.per_broker(slack)
        brokers = ((per > self.broker_hi + wide) | (per < self.broker_lo - wide)) & self.snapshot.alive
        return int(dirs.sum()), int(brokers.sum())

    def per_broker(self, used: FloatArray) -> FloatArray:
        """Sum over the dirs of each broker, float64[B]."""
        return np.bincount(self.snapshot.dir_broker, used, len(self.snapshot.broker)).astype(np.float64)


def build_problem(snapshot: PlannerSnapshot, goals: Goals) -> PlanningProblem:
    """Compute the bands of a snapshot."""
    s, n = snapshot, len(snapshot.broker)
    alive = s.alive[s.dir_broker]
    usable = alive & np.isin(s.dir_state, [DirState.ONLINE, DirState.CORDONED])
    takes = alive & (s.dir_state == DirState.ONLINE)
    offline = s.dir_state == DirState.OFFLINE
    capacity = s.capacity * usable
    total = float(s.used.sum())
    mean = total / float(capacity.sum()) if capacity.any() else 0.0
    # Two upper limits: the mark and the band around the mean. The mark is never below the incoming limit.
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
        f"broker {s.broker[b]} can reach {most[b] / broker_capacity[b]:.1%} usage at most, because its other dirs take no replicas"
        for b in np.flatnonzero((broker_lo < want_lo * (1 - _INSIDE)) & (broker_capacity > 0))
    ]
    if not takes.any():
        notes.append("no dir can take replicas: all are cordoned, draining, offline or on a dead broker")
    elif total > hi.sum() * (1 + 1e-6):
        notes.append(
            f"the cluster holds {total:.3g} bytes, but its dirs have space for {hi.sum():.3g} below the mark of {goals.mark:.0%}: "
            "no plan can bring all dirs below it; add disks or delete data"
        )
    return PlanningProblem(
        snapshot=s, goals=goals, usable=usable, takes=takes, live=alive & ~offline, mean=mean, lo=lo, hi=hi,
        broker_lo=broker_lo, broker_hi=broker_hi, limit=goals.incoming_limit * s.capacity,
        no_intra=np.bincount(s.dir_broker, offline, n) > 0,
        racks=len(np.unique(s.rack[s.alive])), notes=tuple(notes),
    )  # fmt: skip

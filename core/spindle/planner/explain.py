"""Explains a plan: one readable line for each move and for each replica that stays.

The numbers are those of the decision: usage before and after, the band, the mark, racks, live replicas.
"""

from dataclasses import dataclass

import numpy as np

from spindle.model.racks import wanted_racks
from spindle.planner.planner import PlacementPlan
from spindle.planner.snapshot import DirState
from spindle.planner.state import MoveReason

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

TITLES = {
    MoveReason.EVACUATE: "evacuate",
    MoveReason.DRAIN: "drain",
    MoveReason.RACK: "rack",
    MoveReason.MARK: "over mark",
    MoveReason.OVER: "over band",
    MoveReason.TARGET: "target below band",
    MoveReason.SWAP: "swap",
}


def human(count: float) -> str:
    """Bytes in a readable unit, such as ``61.2 GB``."""
    power = 0
    while abs(count) >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.0f} {_UNITS[power]}" if power == 0 else f"{count:.3g} {_UNITS[power]}"


@dataclass(frozen=True)
class Line:
    """One explained move."""

    partition: str
    size: float
    source: str
    target: str
    wave: int
    reason: str
    why: str

    def __str__(self) -> str:
        """The line as text."""
        return (
            f"{self.partition} ({human(self.size)}): {self.source} → {self.target}, wave {self.wave + 1}; "
            f"{self.reason}: {self.why}"
        )


def explain(plan: PlacementPlan, move: int) -> Line:
    """Why a move is in the plan.

    Args:
        plan: the plan.
        move: its number in order of execution, from 0.
    """
    s = plan.problem.snapshot
    r, i, j = int(plan.replica[move]), int(plan.source[move]), int(plan.target[move])
    reason = MoveReason(int(plan.reason[move]))
    return Line(
        partition=f"{s.topic_name(r)}-{s.partition[r]}", size=float(s.size[r]), source=s.dir_label(i),
        target=s.dir_label(j), wave=int(plan.wave[move]), reason=TITLES[reason], why=_why(plan, reason, r, i, j),
    )  # fmt: skip


def _why(plan: PlacementPlan, reason: MoveReason, r: int, i: int, j: int) -> str:
    s, p = plan.problem.snapshot, plan.problem
    if reason == MoveReason.EVACUATE:
        dead = "its broker is dead" if not s.alive[s.dir_broker[i]] else "its dir is offline"
        return f"{dead}, {_copies(plan, r)} left; {_arrives(plan, j)}"
    if reason == MoveReason.DRAIN:
        return f"its dir is being drained; {_arrives(plan, j)}"
    if reason == MoveReason.RACK:
        have, want = _racks(plan, r)
        rack = s.rack_names[int(s.rack[s.dir_broker[j]])]
        return f"the partition is on {have} of {want} possible racks, and {rack} is another one; {_arrives(plan, j)}"
    if reason == MoveReason.MARK:
        return f"its dir is {_fill(plan, i)} full, above the mark of {p.goals.mark:.0%}; {_arrives(plan, j)}"
    if reason == MoveReason.SWAP:
        return f"swapped with a log of another size, because no single log fits; {_arrives(plan, j)}"
    if s.used[i] > p.hi[i]:
        why = f"its dir is {_fill(plan, i)} full, above its band ({_band(plan, i)})"
    elif (share := _broker_fill(plan, i))[0] > share[2]:
        why = f"its broker is {share[0]:.1%} full, above its band ({share[1]:.1%} to {share[2]:.1%})"
    else:
        low = _broker_fill(plan, j)
        needy = f"broker {s.broker[s.dir_broker[j]]} is {low[0]:.1%} full, below its band (from {low[1]:.1%})"
        if low[0] >= low[1]:
            needy = f"the target is below its band ({_band(plan, j)})"
        why = f"its dir can spare it, and {needy}"
    return f"{why}; {_arrives(plan, j)}"


def _fill(plan: PlacementPlan, d: int) -> str:
    s = plan.problem.snapshot
    return f"{s.used[d] / s.capacity[d]:.1%}"


def _band(plan: PlacementPlan, d: int) -> str:
    p = plan.problem
    return f"{p.lo[d] / p.snapshot.capacity[d]:.1%} to {p.hi[d] / p.snapshot.capacity[d]:.1%}"


def _arrives(plan: PlacementPlan, j: int) -> str:
    s = plan.problem.snapshot
    return f"the target goes from {_fill(plan, j)} to {plan.after[j] / s.capacity[j]:.1%} with the whole plan"


def _broker_fill(plan: PlacementPlan, d: int) -> tuple[float, float, float]:
    """Present usage and band of a dir's broker, as shares of its usable capacity."""
    p, b = plan.problem, int(plan.problem.snapshot.dir_broker[d])
    capacity = float(p.per_broker(p.snapshot.capacity * p.usable)[b]) or 1.0
    return (
        float(p.per_broker(p.snapshot.used)[b]) / capacity,
        p.broker_lo[b] / capacity,
        p.broker_hi[b] / capacity,
    )


def _copies(plan: PlacementPlan, r: int) -> str:
    s, p = plan.problem.snapshot, int(plan.problem.snapshot.part[r])
    live = int(plan.problem.live[s.dir[s.start[p] : s.start[p + 1]]].sum())
    return f"{live} live {'replica' if live == 1 else 'replicas'}"


def _racks(plan: PlacementPlan, r: int) -> tuple[int, int]:
    s, p = plan.problem.snapshot, int(plan.problem.snapshot.part[r])
    at = s.dir[s.start[p] : s.start[p + 1]]
    have = len(np.unique(s.rack[s.dir_broker[at[plan.problem.live[at]]]]))
    return have, wanted_racks(len(at), plan.problem.racks)


def explain_partition(plan: PlacementPlan, topic: str, partition: int) -> list[str]:
    """Why each replica of a partition moves or stays, one line each.

    Raises:
        KeyError: if there is no such partition.
    """
    s = plan.problem.snapshot
    number = s.topic_names.index(topic) if topic in s.topic_names else int(topic) if topic.isdigit() else -1
    rows = np.flatnonzero((s.topic == number) & (s.partition == partition))
    if not len(rows):
        raise KeyError(f"{topic}-{partition} is not in this snapshot")
    moves = {int(r): k for k, r in enumerate(plan.replica)}
    lines = [
        str(explain(plan, moves[r])) if r in moves else f"{topic}-{partition} {_stays(plan, r)}"
        for r in rows.tolist()
    ]
    new = np.intersect1d(plan.leader, rows)
    if len(new):
        d = int(s.dir[new[0]]) if int(new[0]) not in moves else int(plan.target[moves[int(new[0])]])
        lines.append(
            f"{topic}-{partition}: the preferred leader becomes broker {s.broker[s.dir_broker[d]]}, to balance leaders; no data moves"
        )
    return lines


def _stays(plan: PlacementPlan, r: int) -> str:
    """Why a replica stays."""
    s, p, d = plan.problem.snapshot, plan.problem, int(plan.problem.snapshot.dir[r])
    here = f"({human(float(s.size[r]))}) stays on {s.dir_label(d)}"
    if s.frozen[r]:
        return f"{here}: another client is reassigning this partition"
    if not p.usable[d]:
        state = DirState(int(s.dir_state[d])).name.lower() if s.alive[s.dir_broker[d]] else "on a dead broker"
        return f"{here}, although that is {state}: no dir that may take it has space below {p.goals.incoming_limit:.0%}"
    fill = plan.after[d] / s.capacity[d]
    if plan.after[d] > p.hi[d] * (1 + 1e-6):
        return f"{here}, which ends at {fill:.1%} above its band ({_band(plan, d)}): no permitted target improves it"
    if s.used[d] > p.hi[d] * (1 + 1e-6):
        return f"{here}: moving other logs brings it from {_fill(plan, d)} into its band ({fill:.1%}) with fewer bytes"
    return f"{here}: the dir ends at {fill:.1%}, inside its band ({_band(plan, d)}), so moving the replica would gain nothing"

"""Rounding from the bound to whole logs: a plan close to the bound, with few moves.

The amounts of :mod:`spindle.planner.state` are the bytes that each dir should give and take. Rounding moves the largest logs first,
because a few large moves are better than many small ones. Each stage keeps *bytes moved + bound of the rest* as close to the bound as
possible:

1. **Settle.** If one log of a dir is slightly larger than the excess of the dir, that log moves. Every dir out
   of its band needs at least one move, and so needs no more than one. If more bytes must enter dirs than leave them, additional leaving bytes
   cost nothing, so the log may be larger.
2. **Match.** Every log that its dir should give in full moves to the dir whose useful amount it fits best
   (first to dirs of the same broker, which needs no network; then to dirs below their own bands, which need a move in any case). This
   stage wastes no bytes. Logs that are much smaller than the average deficit wait: a larger one may help both dirs at once later.
3. **Spend the gap.** If more bytes must enter dirs than leave them, the difference comes from dirs that need not give. The best
   logs for that are slightly larger than the excess of their own dir, because one move brings that dir into its band. (If more bytes must
   leave than enter, stage 4 has the same effect: any dir with space can be the target.)
4. **Close.** Many small amounts remain, one per dir. For each, a planned move takes a larger log
   (:mod:`spindle.planner.exchange`), else the smallest log that covers the amount moves. If that log exceeds the share of this dir in
   a few per cent of the bound, the two logs that cover the amount best move, or the largest log below it moves first.
5. **Repair.** If no such log exists, any legal move or swap that lowers the sum of both sides of the bound.

Before these stages come replicas that must leave their dir (fewest live replicas first) and partitions on too few racks.

Every stage depends only on the present state, and every move lowers (bytes on dirs to be emptied, partitions on too few racks, In + Out) in
lexicographic order. So planning ends, and planning on the result of a plan finds no move.
"""

import numpy as np

from spindle.planner.closing import Closer
from spindle.planner.snapshot import BoolArray, FloatArray, IntArray
from spindle.planner.state import MoveReason, PlanState, put

_FAIR = 2  # times the equal share of each broker in the replicas that must leave their dirs
_SPARED = 4  # times the gap per dir that one dir may use
_LOGS = 3  # logs of a dir that are tried
_FAR = 1e18  # bytes; more than any difference
_PLENTY = 2  # times the rest: enough logs to find some that fit


def improve(state: PlanState) -> None:
    """Run all stages once, on the replicas that have not moved in this pass."""
    evacuate(state)
    repair_racks(state)
    if state.problem.goals.balance:
        balance(state)


def balance(state: PlanState) -> None:
    """Stages 1 to 5."""
    needs = int((state.useful_out > 0).sum() + (state.useful_in > 0).sum())
    if not needs or state.imbalance <= state.floor:
        return
    rest = Closer(state)
    small = state.imbalance / needs
    floor = min(small, _enough(state))
    settle(state, rest, floor)
    match(state, floor)
    for needy in (True, False) if state.gap > state.floor else ():
        spend_gap(state, min(small / 2, _enough(state)), needy=needy)
    rest.close()


def _enough(state: PlanState) -> float:
    """A size such that larger logs on dirs that may give have several times the bytes that are left to move."""
    rows = np.flatnonzero((state.free_out[state.dir] >= state.size) & ~state.done)
    sizes = np.sort(state.size[rows])[::-1]
    at = int(np.searchsorted(np.cumsum(sizes), _PLENTY * state.left))
    return float(sizes[at]) if at < len(sizes) else 0.0


def evacuate(state: PlanState) -> None:
    """Move replicas off dirs that must be emptied: dead before draining, fewest live replicas first, then largest."""
    must = np.flatnonzero(~state.problem.usable[state.dir] & ~state.done)
    if not len(must):
        return
    live = state.problem.live[state.dir]
    copies = np.add.reduceat(live.astype(np.int64), state.snapshot.start[:-1])[state.snapshot.part[must]]
    at = state.snapshot.dir_broker
    crowd = np.full(len(state.snapshot.broker), -_FAIR * len(must) / max(int(state.snapshot.alive.sum()), 1))
    for r in must[np.lexsort((must, -state.size[must], copies, live[must]))].tolist():
        if _place(state, r, state.reason_to_leave(int(state.dir[r])), state.problem.takes, crowd):
            crowd[at[state.dir[r]]] += 1


def _place(
    state: PlanState, r: int, reason: MoveReason, among: BoolArray, crowd: FloatArray | None = None
) -> bool:
    """Move a replica that cannot stay to the best ``among`` these dirs: useful, else harmless, else least full.

    Useful dirs below their own bands come first (they need a move in any case), then those of brokers that take few other replicas
    (``crowd``: how many each takes beyond its share, which speeds up the evacuation of a dead disk), then those with the largest deficit.
    """
    p, x = state.problem, float(state.size[r])
    useful = np.flatnonzero((state.useful_in >= x) & among)
    if len(useful):
        score = x - state.useful_in[useful]
        score[state.used[useful] >= p.lo[useful]] += _FAR
        if crowd is not None:
            score += np.maximum(crowd[state.snapshot.dir_broker[useful]], 0.0) * (1e-4 * _FAR)
        if put(state, r, useful, score, reason):
            return True
    free = np.flatnonzero((state.free_in >= x) & among)
    if len(free) and put(
        state, r, free, -np.minimum(state.useful_in[free], x) - 1e-3 * state.free_in[free], reason
    ):
        return True
    fits = np.flatnonzero((state.used + x <= p.limit) & among)
    after = (state.used[fits] + x) / state.snapshot.capacity[fits]
    if put(state, r, fits, after.copy(), reason, tries=len(fits)):
        return True
    return put(state, r, fits, after, reason, tries=len(fits), lenient=True)


def repair_racks(state: PlanState) -> None:
    """Spread partitions on too few racks to another rack, by the cheapest replica to move."""
    for p in short_partitions(state).tolist():
        first, last = int(state.snapshot.start[p]), int(state.snapshot.start[p + 1])
        while state.racks_short(p):
            rows = [r for r in range(first, last) if not state.done[r] and state.shares_rack(r)]
            # Prefer the smallest log, then the dir with the most bytes to give.
            rows.sort(key=lambda r: (state.size[r], -state.useful_out[state.dir[r]], r))
            other = state.problem.takes & ~state.on_racks_of(p)
            if not any(_place(state, r, MoveReason.RACK, other) for r in rows):
                break


def short_partitions(state: PlanState) -> IntArray:
    """Partitions whose live replicas are on fewer racks than possible, ascending; vectorised."""
    s, p = state.snapshot, state.problem
    n = len(s.start) - 1
    if n <= 0:
        return np.zeros(0, np.int64)
    rack = s.rack[s.dir_broker[state.dir]]
    rf = np.diff(s.start)
    live = p.live[state.dir]
    if len(s.rack_names) <= 62:  # one bit per rack
        bits = np.where(live, np.left_shift(np.int64(1), rack), 0)
        have = np.bitwise_count(np.bitwise_or.reduceat(bits, s.start[:-1])).astype(np.int64)
    else:
        pair = np.unique(s.part[live] * len(s.rack_names) + rack[live])
        have = np.bincount(pair // len(s.rack_names), minlength=n)
    return np.flatnonzero(have < np.minimum(rf, p.racks))


def match(state: PlanState, small: float) -> None:
    """Stage 2: logs that are useful in full at source and target, largest first."""
    for r in _descending(state, state.useful_out, small):
        x, i = float(state.size[r]), int(state.dir[r])
        if state.useful_out[i] < x or state.free_out[i] < x:
            continue
        _match(state, r)


def settle(state: PlanState, rest: Closer, small: float) -> None:
    """Stage 1: dirs with more than ``small`` bytes to give for which one log is enough, with little waste or within the gap."""
    spared = _SPARED * max(state.gap, 0.0) / max(int((state.useful_out > 0).sum()), 1)
    for i in (-state.useful_out).argsort(kind="stable").tolist():
        need = float(state.useful_out[i])
        if need <= small:
            continue
        rows = rest.on(i)
        x = state.size[rows]
        fit = np.flatnonzero((x >= need) & (x <= min(need + rest.share + spared, state.free_out[i])))
        for n in fit[x[fit].argsort(kind="stable")][:_LOGS].tolist():
            if _match(state, int(rows[n])):
                break


def spend_gap(state: PlanState, small: float, *, needy: bool) -> None:
    """Stage 3: logs from dirs that can spare them; with ``needy``, only from dirs that must give anyway."""
    give = np.where(state.useful_out > 0, state.free_out, 0.0) if needy else state.free_out
    for r in _descending(state, give, small):
        x, i = float(state.size[r]), int(state.dir[r])
        if state.free_out[i] < x or (needy and state.useful_out[i] <= 0):
            continue
        if state.gap < x - min(x, state.useful_out[i]):
            continue
        _match(state, r)


def _descending(state: PlanState, give: FloatArray, small: float) -> list[int]:
    """Replicas that are useful in full at their source, largest first."""
    rows = np.flatnonzero((state.size <= give[state.dir]) & (state.size > small) & ~state.done)
    order: list[int] = rows[(-state.size[rows]).argsort(kind="stable")].tolist()
    return order


def _match(state: PlanState, r: int) -> bool:
    """Move a log to the dir that needs all of it and has the smallest deficit afterwards.

    A dir of the same broker comes first, then dirs below their own bands, which need a move in any case.
    """
    x, i = float(state.size[r]), int(state.dir[r])
    fit = (state.useful_in >= x).nonzero()[0]
    if not len(fit):
        return False
    score = state.useful_in[fit] - x
    score[state.used[fit] >= state.problem.lo[fit]] += _FAR
    score[state.snapshot.dir_broker[fit] == state.snapshot.dir_broker[i]] -= 2 * _FAR
    return put(state, r, fit, score, state.reason_to_leave(i))

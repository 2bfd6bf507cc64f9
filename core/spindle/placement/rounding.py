"""From the bound to whole logs: a plan within a fraction of a per cent of it, with few moves.

The amounts of :mod:`spindle.placement.state` say what each dir could usefully give and take. Rounding goes largest log first,
because few large logs beat many small ones, in stages that each keep *moved + bound of the rest* as near the bound as can be:

1. **Match.** Every log that its dir could usefully give in one piece goes to the dir whose useful amount it fills best
   (own broker first: that costs no network). Nothing is wasted here. Logs far smaller than what is missing on average
   wait: a later, larger one may do for both ends at once.
2. **Spend the gap.** If more bytes must enter than leave, the difference comes from dirs that need not give. It is best
   spent on logs that are a little too large for their own dir's excess: one move settles that dir. (If more must leave than
   enter, closing does as much: any dir with room will do.)
3. **Close.** What is left is many small amounts, one per dir. Each is settled by the smallest log that covers it, unless
   that overshoots by more than its share of one per cent of the bound; then the largest log below goes first.
4. **Repair.** Where no such log exists, any legal move or swap that lowers both sides of the bound together.

Before that: replicas that must leave their dir (fewest live copies first), and partitions on too few racks.

Every stage looks at the present state only, and every move lowers (stranded bytes, short partitions, In + Out) in that order, so
planning ends, and planning on a finished plan gives nothing.
"""

import numpy as np

from spindle.placement.closing import Closer
from spindle.placement.snapshot import Bools, Floats, Ints
from spindle.placement.state import Reason, State, put

_PLENTY = 2  # times what is left: choice enough to find logs that fit


def improve(state: State) -> None:
    """Run all stages once, on the replicas that have not moved in this pass."""
    evacuate(state)
    repair_racks(state)
    if state.problem.goals.balance:
        balance(state)


def balance(state: State) -> None:
    """Stages 1 to 4."""
    needs = int((state.useful_out > 0).sum() + (state.useful_in > 0).sum())
    if not needs or state.unrest <= state.floor:
        return
    rest = Closer(state)
    small = state.unrest / needs
    match(state, min(small, _enough(state)))
    for needy in (True, False):
        spend_gap(state, min(small / 2, _enough(state)), needy=needy)
    rest.close()


def _enough(state: State) -> float:
    """A size such that the logs above it, on dirs that may give, are several times what is left to move."""
    rows = np.flatnonzero((state.free_out[state.dir] >= state.size) & ~state.done)
    sizes = np.sort(state.size[rows])[::-1]
    at = int(np.searchsorted(np.cumsum(sizes), _PLENTY * state.left))
    return float(sizes[at]) if at < len(sizes) else 0.0


def evacuate(state: State) -> None:
    """Move replicas off dirs that must be emptied: dead before draining, fewest live copies first, then largest."""
    must = np.flatnonzero(~state.problem.usable[state.dir] & ~state.done)
    if not len(must):
        return
    live = state.problem.live[state.dir]
    copies = np.add.reduceat(live.astype(np.int64), state.snapshot.start[:-1])[state.snapshot.part[must]]
    for r in must[np.lexsort((must, -state.size[must], copies, live[must]))].tolist():
        _place(state, r, state.reason_to_leave(int(state.dir[r])), state.problem.takes)


def _place(state: State, r: int, reason: Reason, among: Bools) -> bool:
    """Find the best home for a replica that cannot stay, ``among`` these dirs: useful, else harmless, else least full.

    Of useful ones the neediest: so the replicas of one dead disk spread over many brokers and are safe again soon.
    """
    p, x = state.problem, float(state.size[r])
    useful = np.flatnonzero((state.useful_in >= x) & among)
    if len(useful) and put(state, r, useful, x - state.useful_in[useful], reason):
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


def repair_racks(state: State) -> None:
    """Give partitions on too few racks another one, by the replica whose leaving costs least."""
    for p in short_partitions(state).tolist():
        first, last = int(state.snapshot.start[p]), int(state.snapshot.start[p + 1])
        while state.racks_short(p):
            rows = [r for r in range(first, last) if not state.done[r] and state.shares_rack(r)]
            # Prefer the smallest log, then the dir that has most to give.
            rows.sort(key=lambda r: (state.size[r], -state.useful_out[state.dir[r]], r))
            other = state.problem.takes & ~state.on_racks_of(p)
            if not any(_place(state, r, Reason.RACK, other) for r in rows):
                break


def short_partitions(state: State) -> Ints:
    """Partitions whose live replicas stand on fewer racks than they should, ascending; vectorised over all of them."""
    s, p = state.snapshot, state.problem
    n = len(s.start) - 1
    if n <= 0:
        return np.zeros(0, np.int64)
    rack = s.rack[s.dir_broker[state.dir]]
    rf = np.diff(s.start)
    live = p.live[state.dir]
    if len(s.rack_names) <= 62:  # a bit per rack
        bits = np.where(live, np.left_shift(np.int64(1), rack), 0)
        have = np.bitwise_count(np.bitwise_or.reduceat(bits, s.start[:-1])).astype(np.int64)
    else:
        pair = np.unique(s.part[live] * len(s.rack_names) + rack[live])
        have = np.bincount(pair // len(s.rack_names), minlength=n)
    return np.flatnonzero(have < np.minimum(rf, p.racks))


def match(state: State, small: float) -> None:
    """Stage 1: logs that both ends have use for, largest first."""
    for r in _descending(state, state.useful_out, small):
        x, i = float(state.size[r]), int(state.dir[r])
        if state.useful_out[i] < x or state.free_out[i] < x:
            continue
        fit = np.flatnonzero(state.useful_in >= x)
        if len(fit):
            put(state, r, fit, _best_fit(state, i, fit, x), state.reason_to_leave(i))


def spend_gap(state: State, small: float, *, needy: bool) -> None:
    """Stage 2: logs from dirs that can spare them, first (``needy``) from those that must give anyway."""
    give = np.where(state.useful_out > 0, state.free_out, 0.0) if needy else state.free_out
    for r in _descending(state, give, small):
        x, i = float(state.size[r]), int(state.dir[r])
        if state.free_out[i] < x or (needy and state.useful_out[i] <= 0):
            continue
        if state.gap < x - min(x, state.useful_out[i]):
            continue
        fit = np.flatnonzero(state.useful_in >= x)
        if len(fit):
            put(state, r, fit, _best_fit(state, i, fit, x), state.reason_to_leave(i))


def _descending(state: State, give: Floats, small: float) -> list[int]:
    """Replicas that their dir could give in one piece, largest first."""
    rows = np.flatnonzero((state.size <= give[state.dir]) & (state.size > small) & ~state.done)
    order: list[int] = rows[np.argsort(-state.size[rows], kind="stable")].tolist()
    return order


def _best_fit(state: State, i: int, fit: Ints, x: float) -> Floats:
    """Score of targets (least is best): what remains missing there; a dir of the same broker comes first."""
    score = state.useful_in[fit] - x
    score[state.snapshot.dir_broker[fit] == state.snapshot.dir_broker[i]] -= 1e18
    return score

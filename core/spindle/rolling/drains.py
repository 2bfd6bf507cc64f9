"""Who may be evicted beside a broker that a drain has taken already: the rest of its rack, as far as rule 2 allows.

Anybody may evict one broker while all are in sync; the usual budget sees to that. When its node was closed to new pods before (as
``kubectl drain`` does first), that was the beginning of a drain, and the other closed nodes of the same rack are meant, too. With
replicas spread over racks their brokers share no partition (KIP-36), so a zone can be drained as a whole. Nobody of another rack
goes meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spindle.cluster.waiting import Waiting
from spindle.rolling.verdict import RestartVerdict


@dataclass(frozen=True, kw_only=True)
class DrainCandidate:
    """A broker and the node that it lives on.

    Attributes:
        rack: None where there are no racks.
        closed: whether its node takes no new pods.
        whole: whether it runs and is in sync.
        there: whether it has a pod that could be evicted.
        taken: whether it is taken down by our own hand.
        open: whether it was said before that it may be evicted.
    """

    node_id: int
    rack: str | None = None
    closed: bool = False
    whole: bool = True
    there: bool = True
    taken: bool = False
    open: bool = False


@dataclass(frozen=True)
class Drain:
    """What a drain may take next.

    Attributes:
        rack: the one that is being drained; None if none is.
        away: its brokers that are down, or out of sync, on closed nodes.
        go: brokers that may be evicted now, all of them together.
        refused: broker → why rule 2 forbids it.
        later: brokers on closed nodes of other racks.
    """

    rack: str | None = None
    away: tuple[int, ...] = ()
    go: tuple[int, ...] = ()
    refused: dict[int, Waiting] = field(default_factory=dict)
    later: tuple[int, ...] = ()


def next_to_drain(
    residents: Sequence[DrainCandidate], ask: Callable[[int, frozenset[int]], RestartVerdict]
) -> Drain:
    """Choose who may be evicted beside those that are gone.

    Where brokers of two racks are gone, or there are no racks, nobody: then one at a time is all that is safe to say.

    Args:
        residents: all brokers, in any order.
        ask: whether a broker may go down while these others, beside those that are down anyway, go too.
    """
    ordered = sorted(residents, key=lambda r: r.node_id)
    away = [r for r in ordered if r.closed and not r.whole]
    racks = {r.rack for r in ordered if r in away or r.taken or r.open}
    rack = next(iter(racks)) if len(racks) == 1 else None
    asking = [r for r in ordered if r.closed and r.there and not r.taken]
    if rack is None or not away:
        return Drain(later=tuple(r.node_id for r in asking if r.whole) if away else ())
    go: list[int] = []
    refused: dict[int, Waiting] = {}
    for each in asking:
        if each.rack != rack:
            continue
        verdict = ask(each.node_id, frozenset(go))
        if verdict.refusal is None:
            go.append(each.node_id)
        else:
            refused[each.node_id] = verdict.refusal
    later = tuple(r.node_id for r in asking if r.rack != rack)
    return Drain(rack, tuple(r.node_id for r in away), tuple(go), refused, later)

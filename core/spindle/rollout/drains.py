"""Which brokers may be evicted in addition to a broker that a node drain has evicted: the rest of its rack, as far as min ISR allows.

Anybody may evict one broker while all are in sync; the normal PodDisruptionBudget allows that. If its node was cordoned before (as
``kubectl drain`` does first), this is the start of a drain, and the other cordoned nodes of the same rack belong to it. With replicas
spread over racks their brokers share no partition (KIP-36), so a zone can be drained as a whole. No broker of another rack is evicted
meanwhile. The safety rule is "no restart below min.insync.replicas" (docs/safety.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spindle.model.restart_verdict import RestartVerdict
from spindle.model.waiting import Waiting


@dataclass(frozen=True, kw_only=True)
class DrainCandidate:
    """A broker and its node.

    Attributes:
        rack: None without racks.
        closed: whether its node is cordoned.
        whole: whether it runs and is in sync.
        there: whether it has a pod that could be evicted.
        taken: whether Spindle is taking it down.
        open: whether its eviction was allowed before.
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
    """What a drain may evict next.

    Attributes:
        rack: the rack that is being drained; None if none is.
        away: its brokers on cordoned nodes that are down or out of sync.
        go: brokers that may be evicted now, all at the same time.
        refused: broker → why min.insync.replicas forbids it.
        later: brokers on cordoned nodes of other racks.
    """

    rack: str | None = None
    away: tuple[int, ...] = ()
    go: tuple[int, ...] = ()
    refused: dict[int, Waiting] = field(default_factory=dict)
    later: tuple[int, ...] = ()


def next_to_drain(
    residents: Sequence[DrainCandidate], ask: Callable[[int, frozenset[int]], RestartVerdict]
) -> Drain:
    """Choose which brokers may be evicted in addition to those that are down.

    If brokers of two racks are down, or there are no racks, none: then only one at a time is safe.

    Args:
        residents: all brokers, in any order.
        ask: whether a broker may go down together with these others, in addition to those that are down anyway.
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

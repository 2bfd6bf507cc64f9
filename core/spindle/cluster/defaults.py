"""The cluster's defaults that Spindle sets dynamically, and what stood there before them (rule 10)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.cluster.dynamic_config import ON_CLUSTER, UNCLEAN, ConfigValues


@dataclass(frozen=True)
class Default:
    """One of the cluster's defaults that is ours.

    Attributes:
        value: what it is to be.
        before: what it was of ours before that, as long as the value was not seen; None for nothing.
        former: what somebody else, or Kafka itself (KIP-966), had set before us; None for nothing.
    """

    value: str
    before: str | None = None
    former: str | None = None


@dataclass(frozen=True)
class Defaults:
    """What the cluster is to be told.

    Attributes:
        orders: defaults to set; None takes one away.
        ours: those that are ours until that is seen.
        by_hand: key → (what somebody else has set, what the spec wants).
    """

    orders: Mapping[str, str | None] = field(default_factory=dict)
    ours: Mapping[str, Default] = field(default_factory=dict)
    by_hand: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def default_changes(
    explicit: Mapping[str, str], standing: Mapping[str, ConfigValues], ours: Mapping[str, Default]
) -> Defaults:
    """What to set, and what to put back where the spec does not name it any more.

    What was set without us is overwritten, and noted, only for ``min.insync.replicas``: Kafka sets that one itself. What was ours and is
    another now is somebody else's, and left.

    Args:
        explicit: what the spec itself says.
        standing: of `ON_CLUSTER`, as a broker tells.
        ours: which of the defaults we have set.
    """
    orders: dict[str, str | None] = {}
    kept: dict[str, Default] = {}
    by_hand: dict[str, tuple[str, str]] = {}
    for key in sorted(ON_CLUSTER & standing.keys()):
        now, want, mine = standing[key].shared, explicit.get(key), ours.get(key)
        known = mine is not None and now in (mine.value, mine.before, mine.former)
        if want is None:
            if mine is not None and known and now != mine.former:
                orders[key], kept[key] = mine.former, mine
        elif mine is None and (now if now is not None else standing[key].static) == want:
            continue
        elif now not in (None, want) and not (known or (mine is None and key != UNCLEAN)):
            by_hand[key] = (str(now), want)
            if mine is not None:
                kept[key] = mine
        else:
            kept[key] = _noted(now, want, mine)
            if now != want:
                orders[key] = want
    return Defaults(orders, kept, by_hand)


def _noted(now: str | None, want: str, mine: Default | None) -> Default:
    if mine is None:
        return Default(want, former=now)
    if now == want:
        return Default(want, former=mine.former)
    return Default(want, mine.before if want == mine.value else now, mine.former)

"""The cluster-wide defaults that Spindle sets dynamically, and their previous values.

See "every changed setting can be restored" (`docs/safety.md`, rule 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.config.dynamic_config import ON_CLUSTER, UNCLEAN
from spindle.model.config_values import ConfigValues


@dataclass(frozen=True)
class Default:
    """A cluster-wide default that Spindle set.

    Attributes:
        value: the desired value.
        before: Spindle's previous value, until Kafka shows ``value``; None for none.
        former: the value that another client, or Kafka itself (KIP-966), had set before Spindle; None for none.
    """

    value: str
    before: str | None = None
    former: str | None = None


@dataclass(frozen=True)
class Defaults:
    """Changes to the cluster-wide defaults.

    Attributes:
        orders: defaults to set; None deletes one.
        ours: the defaults that are Spindle's until Kafka shows these changes.
        by_hand: key → (the value that another client has set, the value in the spec).
    """

    orders: Mapping[str, str | None] = field(default_factory=dict)
    ours: Mapping[str, Default] = field(default_factory=dict)
    by_hand: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def default_changes(
    explicit: Mapping[str, str], standing: Mapping[str, ConfigValues], ours: Mapping[str, Default]
) -> Defaults:
    """The defaults to set, and those to restore because the spec no longer contains them.

    A value that another client has set is overwritten, and recorded, only for ``min.insync.replicas``, because Kafka itself sets that one. A value
    that was Spindle's and has changed since belongs to another client, and is not changed.

    Args:
        explicit: the settings in the spec.
        standing: current values of `ON_CLUSTER`, as a broker reports them.
        ours: the defaults that Spindle has set.
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

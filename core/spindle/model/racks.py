"""The rack rules: when racks are used, what counts as spread, and when a move loses a rack.

A *rack* is a failure domain; here, the zone of a broker's node. The rules:

- Either every broker has a rack or none has (:func:`rack_of`). A mixture cannot be spread: two brokers without
  a rack could be in the same failure domain or not.
- A partition with ``rf`` replicas in a cluster of ``R`` racks that can hold a replica should be on
  ``min(rf, R)`` racks (:func:`wanted_racks`). With more replicas than racks, the *counts* per rack should be as even
  as the racks' sizes allow (:func:`even_counts`).
- No move may leave the live replicas of a partition on fewer racks than now, nor on fewer than wanted if another
  target of this move would reach more (:func:`move_keeps_racks`; "no rack lost", `docs/safety.md`, rule 3).

Pure Python without numpy, because the operator imports this at start-up. The planner applies the same predicates to arrays.
"""

from collections.abc import Iterable, Mapping, Sequence


class PlacementError(ValueError):
    """An impossible or inconsistent placement; the message says why and what to change."""


def rack_of(brokers: Mapping[int, str | None]) -> dict[int, str]:
    """Broker id → rack; in a cluster without racks, all brokers are in one rack with an empty name.

    Raises:
        PlacementError: if some brokers have a rack and others do not.
    """
    without = sorted(b for b, rack in brokers.items() if rack is None)
    if without and len(without) < len(brokers):
        some = ", ".join(map(str, without[:5])) + (" …" if len(without) > 5 else "")
        raise PlacementError(
            f"{len(without)} of {len(brokers)} brokers have no rack (broker {some}) while the others have one: "
            "configure a rack for all brokers or for none"
        )
    return {b: rack or "" for b, rack in brokers.items()}


def alternate(brokers: Mapping[int, str | None]) -> list[int]:
    """Order brokers so that neighbours are in different racks as long as more than one rack is left.

    Racks are sorted by name, brokers within a rack by id: one broker of each rack, then the second of each, and so on. With
    racks of equal size, every ``R`` consecutive brokers cover all ``R`` racks, so striping along this list is
    rack-aware (KIP-36).
    """
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(rack_of(brokers).items()):
        by_rack.setdefault(rack, []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [
        column[i] for i in range(max(map(len, columns), default=0)) for column in columns if i < len(column)
    ]


def wanted_racks(replication_factor: int, racks: int) -> int:
    """The number of racks that a partition should be on: that of its replicas, or all racks if there are fewer."""
    return min(replication_factor, racks)


def even_counts(replication_factor: int, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Minimum and maximum number of a partition's replicas in each rack if they are spread as evenly as possible.

    Replicas are distributed to racks in turn, to each at most one per broker. With ``L`` the number of complete rounds, a rack
    of ``n`` brokers holds ``min(n, L)`` to ``min(n, L + 1)`` replicas.

    Args:
        replication_factor: at least 1, at most the sum of ``sizes``.
        sizes: brokers in each rack.

    Returns:
        (least, most) per rack, in the order of ``sizes``.
    """
    level = 0
    while sum(min(n, level + 1) for n in sizes) <= replication_factor and level < max(sizes):
        level += 1
    exact = sum(min(n, level) for n in sizes) == replication_factor
    return [min(n, level) for n in sizes], [min(n, level if exact else level + 1) for n in sizes]


def move_keeps_racks(now: int, after: int, best: int, wanted: int) -> bool:
    """Whether a move keeps the spread over racks ("no rack lost", `docs/safety.md`, rule 3).

    Args:
        now: racks that hold a live replica of the partition.
        after: the same after the move.
        best: the maximum number that any legal target of this replica would give.
        wanted: :func:`wanted_racks` of the partition.
    """
    return after >= max(now, min(wanted, best))


def count_racks(replicas: Iterable[int], racks: Mapping[int, str]) -> int:
    """Number of racks of these brokers; brokers that are not in ``racks`` (not live) do not count."""
    return len({racks[b] for b in replicas if b in racks})

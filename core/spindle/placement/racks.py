"""The rack rules, in one place: who may use them, what counts as spread, and when a move loses a rack.

A *rack* is whatever must not fail as one: here the zone of a broker's node. The rules:

- Either every broker has a rack or none has (:func:`rack_of`). A mixture cannot be spread: nobody could say whether
  two brokers without a rack stand together.
- A partition with ``rf`` replicas in a cluster of ``R`` racks that can hold a replica belongs on
  ``min(rf, R)`` racks (:func:`wanted_racks`). With more replicas than racks the *counts* per rack are to be as even
  as the racks' sizes allow (:func:`even_counts`).
- No move may leave the live replicas of a partition on fewer racks than now, nor on fewer than are wanted where
  this move could have had them (:func:`move_keeps_racks`; rule 3 of the safety rules).

Pure Python, no numpy: the operator loads this at start-up. The planner applies the same predicates to arrays.
"""

from collections.abc import Iterable, Mapping, Sequence


class PlacementError(ValueError):
    """A placement that cannot be had, or that nobody should want; the message says which and the way out."""


def rack_of(brokers: Mapping[int, str | None]) -> dict[int, str]:
    """Broker id → rack; brokers of a cluster without racks all stand in one rack that has no name.

    Raises:
        PlacementError: if some brokers have a rack and others have none; both groups are named.
    """
    without = sorted(b for b, rack in brokers.items() if rack is None)
    if without and len(without) < len(brokers):
        some = ", ".join(map(str, without[:5])) + (" …" if len(without) > 5 else "")
        raise PlacementError(
            f"{len(without)} of {len(brokers)} brokers have no rack (broker {some}) while the others have one: "
            "give every broker a rack or none"
        )
    return {b: rack or "" for b, rack in brokers.items()}


def alternate(brokers: Mapping[int, str | None]) -> list[int]:
    """Order brokers so that neighbours stand in different racks for as long as there are different racks left.

    Racks go by name, brokers inside a rack by id: one broker of each rack, then the second of each, and so on. With
    racks of one size every run of ``R`` neighbours covers all ``R`` racks, which is what makes striping along this list
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
    """On how many racks a partition belongs: as many as it has replicas, or all there are."""
    return min(replication_factor, racks)


def even_counts(replication_factor: int, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Least and most replicas of one partition in each rack, if its spread is as even as can be.

    Filling the racks like communicating vessels, each only up to its number of brokers, every rack ends at the level
    ``L`` or, for what is left over, ``L + 1``: a rack of ``n`` brokers holds ``min(n, L)`` to ``min(n, L + 1)``.

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
    """Whether a move is legal by rule 3.

    Args:
        now: racks that hold a live replica of the partition.
        after: the same once the move is done.
        best: the most that any legal target of this replica could have given.
        wanted: :func:`wanted_racks` of the partition.
    """
    return after >= max(now, min(wanted, best))


def count_racks(replicas: Iterable[int], racks: Mapping[int, str]) -> int:
    """Number of racks under these brokers; brokers that are not in ``racks`` (not live) do not count."""
    return len({racks[b] for b in replicas if b in racks})

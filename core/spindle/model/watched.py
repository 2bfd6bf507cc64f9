"""Judgements about a cache that watches keep: which objects differ from a new list, and whether its age permits an answer."""

from collections.abc import Mapping

Versions = Mapping[tuple[str, str], str]  # namespace and name → UID and resourceVersion

QUIET_SECONDS = 90.0  # a watch without an event, a bookmark or a restart for this long proves nothing


def differences(held: Versions, listed: Versions) -> frozenset[tuple[str, str]]:
    """Objects that are in one of them only, or in another version: candidates, as the watch may be about to report them."""
    return frozenset(name for name in held.keys() | listed.keys() if held.get(name) != listed.get(name))


def missed(before: Versions, after: Versions, listed: Versions) -> frozenset[tuple[str, str]]:
    """Objects whose change the watch did not report in the time that it was given.

    Args:
        before: the cache at the time of the list.
        after: the cache when that time was over.
        listed: the list.
    """
    return frozenset(name for name in differences(before, listed) if before.get(name) == after.get(name))


def answers(*, live: bool, heard: float, now: float) -> bool:
    """Whether a cache may answer: its watch runs and reported something, if only a bookmark, not long ago. Times in seconds."""
    return live and now - heard <= QUIET_SECONDS


def reaches(held: str, wanted: int) -> bool:
    """Whether a resourceVersion is not older than one that is known to exist; one that is no number is."""
    return held.isdigit() and int(held) >= wanted

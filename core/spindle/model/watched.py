"""Judgements about a cache that watches keep: which objects differ from a new list, and whether its age permits an answer."""

from collections.abc import Mapping

Versions = Mapping[tuple[str, str], str]  # namespace and name → UID and resourceVersion

QUIET_SECONDS = 90.0  # a watch without an event, a bookmark or a restart for this long proves nothing
COMPARED_SECONDS = 1500.0  # nor does a cache that was not compared with a list for this long


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


def answers(*, live: bool, heard: float, compared: float, now: float) -> bool:
    """Whether a cache may answer: its watch runs and reported something, if only a bookmark, not long ago, and a list was the same. Times in seconds."""
    return live and now - heard <= QUIET_SECONDS and now - compared <= COMPARED_SECONDS


def resumes(*, held: str, now_at: str, heard: float, now: float) -> bool:
    """Whether a watch may go on from where it was; otherwise all is listed anew. Times in seconds.

    A server whose data was restored from a backup accepts a watch from a resourceVersion that it has not reached, and reports nothing until it has. If
    nobody looked for long, it may have passed that again with other changes.

    Args:
        held: the resourceVersion that the cache has reached.
        now_at: that of the server.
        heard: when the server last reported anything.
        now: the present time.
    """
    return held.isdigit() and reaches(now_at, int(held)) and now - heard <= QUIET_SECONDS


def reaches(held: str, wanted: int) -> bool:
    """Whether a resourceVersion is not older than one that is known to exist; one that is no number is."""
    return held.isdigit() and int(held) >= wanted

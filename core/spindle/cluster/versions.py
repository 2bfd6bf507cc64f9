"""Which releases of Kafka this version of Spindle runs, and how it comes from one to another."""

from typing import Final

from spindle.cluster.waiting import Waiting

# Minor release → its metadata.version (MetadataVersion.java). Older ones were not seen running; 4.2 has no cordon.
LEVELS: Final = {"4.2": 29, "4.3": 30}
SUPPORTED: Final = tuple(LEVELS)
_MOST_DIGITS: Final = 9  # of each number of a version


def unsupported(version: str) -> Waiting | None:
    """Why a release is not run; None if it is."""
    if _minor(version) in LEVELS:
        return None
    return Waiting.refused(
        rule=None,
        reason="VersionNotSupported",
        message=f"Kafka {version} is not a release that this version of Spindle runs.",
        unblocked_by=f"Set spec.version to a release of {' or '.join(SUPPORTED)}, for example {SUPPORTED[-1]}.1.",
    )


def level_of(version: str) -> int | None:
    """The metadata.version that a release is meant to run with; None for one that is not known."""
    return LEVELS.get(_minor(version))


def release_of(level: int) -> str:
    """The release that a metadata.version belongs to, for people: ``4.2``."""
    fitting = [minor for minor, its in LEVELS.items() if its <= level]
    return fitting[-1] if fitting else f"level {level}"


def order(version: str) -> tuple[int, ...]:
    """Orders releases; a text that is no version comes first."""
    parts = version.split(".")
    known = all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in parts)
    return tuple(int(part) for part in parts) if known else ()


def may_change(running: str, wanted: str, metadata_version: int | None) -> Waiting | None:
    """Why a cluster may not go from one release to another; None if it may.

    Up it may go at any time. Down it may within a minor release, and to an earlier one for as long as metadata.version has not been raised
    above what that one knows: Kafka cannot read records of a version that it does not know, and does not start.

    Args:
        running: the latest release that a node of the cluster runs.
        wanted: the release of the spec.
        metadata_version: the finalized level; None if it is not known.
    """
    if order(wanted) >= order(running) or _minor(wanted) == _minor(running):
        return None
    level = level_of(wanted)
    if metadata_version is None or level is None:
        why = "it is not known how far metadata.version was raised"
    elif metadata_version > level:
        why = (
            f"metadata.version was raised to {release_of(metadata_version)}, which Kafka {wanted} cannot read"
        )
    else:
        return None
    return Waiting.refused(
        rule=None,
        reason="DowngradeNotSupported",
        message=f"The cluster runs Kafka {running} and does not go back to {wanted}: {why}.",
        unblocked_by=f"Set spec.version to {running} or a later release.",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])

"""The Kafka releases that this version of Spindle supports, and the changes between them that it permits."""

import re
from typing import Final

from spindle.model.waiting import Waiting

# Minor release → its metadata.version (MetadataVersion.java). Older ones were not tested; 4.2 has no cordon.
LEVELS: Final = {"4.2": 29, "4.3": 30, "4.4": 33}
SUPPORTED: Final = tuple(LEVELS)
_MOST_DIGITS: Final = 9  # digits of each number in a version


def unsupported(version: str) -> Waiting | None:
    """Why a release is not supported; None if it is."""
    if _minor(version) in LEVELS:
        return None
    return Waiting.refused(
        rule=None,
        reason="VersionNotSupported",
        message=f"This version of Spindle does not support Kafka {version}.",
        unblocked_by=f"Set spec.version to a release of {' or '.join(SUPPORTED)}, for example {SUPPORTED[-1]}.1.",
    )


def level_of(version: str) -> int | None:
    """The metadata.version of a release; None for an unknown one."""
    return LEVELS.get(_minor(version))


def release_of(level: int) -> str:
    """The release with a metadata.version, for messages: ``4.2``."""
    fitting = [minor for minor, its in LEVELS.items() if its <= level]
    return fitting[-1] if fitting else f"level {level}"


def order(version: str) -> tuple[int, ...]:
    """A key that sorts releases; a text that is not a version comes first."""
    parts = version.split(".")
    known = all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in parts)
    return tuple(int(part) for part in parts) if known else ()


def may_change(running: str, wanted: str, metadata_version: int | None) -> Waiting | None:
    """Why a cluster must not change from one release to another; None if it may.

    An upgrade is always permitted. A downgrade is permitted within a minor release, and to an earlier one only while metadata.version is not
    above that
    release's: Kafka cannot read records of a metadata version that it does not know, and does not start.

    Args:
        running: the latest release that any node of the cluster runs.
        wanted: the release in the spec.
        metadata_version: the finalized level; None if it is not known.
    """
    if order(wanted) >= order(running) or _minor(wanted) == _minor(running):
        return None
    level = level_of(wanted)
    if metadata_version is None or level is None:
        why = "the finalized metadata.version is unknown"
    elif metadata_version > level:
        why = f"metadata.version was upgraded to {release_of(metadata_version)}, which Kafka {wanted} cannot read"
    else:
        return None
    return Waiting.refused(
        rule=None,
        reason="DowngradeNotSupported",
        message=f"The cluster runs Kafka {running} and cannot be downgraded to {wanted}: {why}.",
        unblocked_by=f"Set spec.version to {running} or a later release.",
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.\d+")


def release_version(version: str) -> str:
    """The value of ``kafka-storage format --release-version`` for a Kafka version.

    Raises:
        ValueError: the text is not a version such as ``4.3.1``.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a Kafka version such as 4.3.1")
    return f"{match[1]}.{match[2]}"

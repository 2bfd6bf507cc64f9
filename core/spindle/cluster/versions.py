"""Which releases of Kafka this version of Spindle runs."""

from typing import Final

from spindle.cluster.refusal import Refusal

SUPPORTED: Final = ("4.3",)  # minor releases; older ones lack cordoning, newer ones were not seen running


def unsupported(version: str) -> Refusal | None:
    """Why a release is not run; None if it is."""
    minor = ".".join(version.split(".")[:2])
    if minor in SUPPORTED:
        return None
    return Refusal(
        rule=None,
        reason="VersionNotSupported",
        message=f"Kafka {version} is not a release that this version of Spindle runs.",
        unblocked_by=f"Set spec.version to a release of {' or '.join(SUPPORTED)}, for example {SUPPORTED[-1]}.1.",
    )

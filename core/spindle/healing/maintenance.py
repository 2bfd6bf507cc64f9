"""What a person wants of the disks of one broker (``spec.wishes``); the operator reads it and never writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DiskRequest:
    """What is wanted of one disk.

    Attributes:
        accept_loss: ``<directory id>:<hash>``, None for none.
    """

    cordoned: bool = False
    drained: bool = False
    accept_loss: str | None = None


NO_REQUEST = DiskRequest()


def disk_requests(broker: Mapping[str, Any]) -> dict[str, DiskRequest]:
    """Wishes of a KafkaBroker by disk."""
    return {
        str(entry.get("disk")): DiskRequest(
            cordoned=bool(entry.get("cordoned")),
            drained=bool(entry.get("drained")),
            accept_loss=entry.get("acceptLoss") or None,
        )
        for entry in (broker.get("spec") or {}).get("wishes") or ()
    }

"""What a person wants of one broker (``spec.maintenance``, ``spec.acceptDataLoss``); the operator reads it and never writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DiskRequest:
    """What is wanted of one disk.

    Attributes:
        accept_loss: token of ``spec.acceptDataLoss``, ``<directory id>:<hash>``; None for none.
    """

    cordoned: bool = False
    drained: bool = False
    accept_loss: str | None = None


NO_REQUEST = DiskRequest()


def disk_requests(broker: Mapping[str, Any]) -> dict[str, DiskRequest]:
    """What is wanted of the disks of a KafkaBroker, by disk."""
    spec = broker.get("spec") or {}
    states = {
        str(entry.get("name")): entry.get("desiredState")
        for entry in (spec.get("maintenance") or {}).get("disks") or ()
    }
    tokens = {
        str(entry.get("name")): entry.get("token") or None
        for entry in (spec.get("acceptDataLoss") or {}).get("disks") or ()
    }
    return {
        disk: DiskRequest(
            cordoned=states.get(disk) == "Cordoned",
            drained=states.get(disk) == "Drained",
            accept_loss=tokens.get(disk),
        )
        for disk in dict.fromkeys((*states, *tokens))
    }


def stopped(broker: Mapping[str, Any]) -> bool:
    """Whether a person wants a KafkaBroker's pod stopped."""
    return bool(((broker.get("spec") or {}).get("maintenance") or {}).get("stopped"))


def removed_first(broker: Mapping[str, Any]) -> bool:
    """Whether a person wants a KafkaBroker removed before others of its pool."""
    return bool(((broker.get("spec") or {}).get("maintenance") or {}).get("removeFirst"))


def lost_node(broker: Mapping[str, Any]) -> str | None:
    """The node that a person says is gone for good, with the broker's disks."""
    return ((broker.get("spec") or {}).get("acceptDataLoss") or {}).get("node") or None

"""The user's requests for one broker (``spec.maintenance``, ``spec.acceptDataLoss``); the operator reads them and never writes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DiskRequest:
    """The user's requests for one disk.

    Attributes:
        accept_loss: token of ``spec.acceptDataLoss``, ``<directory id>:<hash>``; None for none.
    """

    cordoned: bool = False
    drained: bool = False
    accept_loss: str | None = None


NO_REQUEST = DiskRequest()


def disk_requests(broker: Mapping[str, Any]) -> dict[str, DiskRequest]:
    """The user's requests for the disks of a KafkaBroker, by disk."""
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
    """Whether the user requests that the broker's pod is stopped."""
    return bool(((broker.get("spec") or {}).get("maintenance") or {}).get("stopped"))


def removed_first(broker: Mapping[str, Any]) -> bool:
    """Whether the user requests that the broker is removed before others of its pool."""
    return bool(((broker.get("spec") or {}).get("maintenance") or {}).get("removeFirst"))


def lost_node(broker: Mapping[str, Any]) -> str | None:
    """The node that the user declared permanently lost, with the broker's disks; None if none."""
    return ((broker.get("spec") or {}).get("acceptDataLoss") or {}).get("node") or None

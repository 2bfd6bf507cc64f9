"""Requests to restart or stop a pod, and their reasons."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class RestartRequest:
    """A request to restart or stop a pod.

    Attributes:
        reason: CamelCase: ``SpecChanged``, ``Stopped``, ``DiskDead``.
        message: why, as a clause: "its configuration changed".
    """

    reason: str
    message: str


SCALED_IN: Final = "ScaledIn"

STOPPED: Final = "Stopped"

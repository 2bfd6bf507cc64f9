"""Reasons of events about actions that failed: the name of the action, with ``Failed``."""

from typing import Final

from spindle.model.actions import Action
from spindle.reasons.reason import Reason, Section

_RETRIED: Final = "nothing: Spindle retries it; if it keeps failing, the message says why"

SECTIONS = (
    Section(
        "Failed actions",
        "A warning event for each action that the API server or Kafka rejected, or that ran into an error.",
        tuple(
            Reason(f"{action.__name__}Failed", f"this action failed: {action.doing}", _RETRIED)
            for action in Action.__subclasses__()
        ),
    ),
)

"""What one reason means, and what a user does about it."""

from dataclasses import dataclass
from typing import Literal

Alert = Literal["page", "ticket", "none"]


@dataclass(frozen=True)
class Reason:
    """One reason of ``status.waiting``, of a condition or of an event.

    Attributes:
        name: CamelCase, stable.
        means: what it says, as a sentence without its full stop (Markdown).
        resolve: what a user does about it, beginning with "nothing" where Spindle, Kafka or Kubernetes continues by itself; empty where
            the reason only reports what happened.
        alert: ``page`` if data or availability is at risk until a user acts, ``ticket`` if a user must act in working hours,
            ``none`` if Spindle continues by itself or nothing is wrong.
    """

    name: str
    means: str
    resolve: str = ""
    alert: Alert = "none"


@dataclass(frozen=True)
class Section:
    """Reasons about one subject, with an introduction (Markdown) that links to its page."""

    title: str
    about: str
    reasons: tuple[Reason, ...]

"""What a check of a spec found: objects that it refers to, and settings that are rejected."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedObject:
    """A Secret or claim that a spec refers to, and what is known of the permission to use it.

    Attributes:
        label: its label ``spindle.dev/usable-by``; None if it has none.
        there: whether it exists.
        problem: why this is unknown; empty if it is known.
    """

    label: str | None = None
    there: bool = True
    problem: str = ""


@dataclass(frozen=True, order=True)
class RejectedSettings:
    """One setting that Kafka would ignore or not start with, or a value of the spec that is not allowed.

    Attributes:
        field: for example ``spec.config``, or ``spec.brokerPools[main].config``.
        key: the setting.
        message: what is wrong, a clause that begins with the key.
        way_out: how to correct it, a clause in the imperative.
        reason: of the waiting entry that reports it.
        without_effect: whether Spindle's own value is in effect instead, even where the setting stays in the spec.
    """

    field: str
    key: str
    message: str
    way_out: str
    reason: str = "InvalidConfig"
    without_effect: bool = False

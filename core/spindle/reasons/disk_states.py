"""Reasons about the state of a disk, from the tables that decide it; ``docs/reference/disk-life.md`` shows them in full."""

from typing import Final

from spindle.disks.findings import RULES
from spindle.disks.lifecycle import TRANSITIONS
from spindle.reasons.reason import Alert, Reason, Section

PAGE: Final = "disk-life.md"

# Events on which a user must act, and how.
_RESOLVE: Final[dict[str, tuple[str, Alert]]] = {
    "DiskFailed": (
        "nothing: Spindle evacuates the disk where it may; `status.waiting` says what needs you",
        "none",
    ),
    "DiskEvacuated": ("replace the disk", "ticket"),
    "DiskUsageHigh": ("free space, or add disks or brokers", "ticket"),
    "DiskSlow": ("find out why the disk is slow, or replace it", "ticket"),
}


def _transitions() -> tuple[Reason, ...]:
    sentences: dict[str, list[str]] = {}
    for row in TRANSITIONS:
        said = sentences.setdefault(row.reason, [])
        if (text := row.sentence.rstrip(".")) not in said:
            said.append(text)
    return tuple(
        Reason(name, f"the disk {', or '.join(said)}", *_RESOLVE.get(name, ()))
        for name, said in sentences.items()
    )


def _findings() -> tuple[Reason, ...]:
    return tuple(Reason(name, f"a disk is {rule.verdict}: {rule.meaning}") for name, rule in RULES.items())


DISK_STATES: Final = Section(
    "Disk states",
    "The events of state changes, and the reasons for the verdicts of the agent.",
    (*_transitions(), *_findings()),
)

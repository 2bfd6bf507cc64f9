"""The reference page of all reasons, from the table in core."""

from collections.abc import Iterable

from spindle.reasons import SECTIONS
from spindle.reasons.reason import Reason

_HEAD = "<!-- Generated from core/spindle/reasons by `make generate`. Change the tables there, not this file. -->\n\n"
_ABOUT = """\
Every entry of `status.waiting`, every condition and every event has one of these reasons. `spindle explain REASON` prints the same in a
terminal. The *Alert* column says how urgent a reason is while it lasts:

- **page**: data or availability is at risk until somebody acts.
- **ticket**: somebody has to act in working hours.
- no entry: Spindle continues by itself, or the reason only reports what happened.

The metric `spindle_waiting` has the entries of `status.waiting` with their reason and urgency; [SpindleWaitingTooLong](alerts.md#spindlewaitingtoolong) fires if one that needs
somebody stays. The events of state changes of a disk (`DiskFailed`, `DiskEvacuated`, …) and
the reasons for verdicts on disks (`IOHung`, `ProbeError`, …) are in [Disk states](disk-life.md).
"""


def reasons_page() -> str:
    """Render the page as Markdown."""
    parts = [f"{_HEAD}# Reasons\n", _ABOUT]
    for section in SECTIONS:
        parts += [f"## {section.title}\n"]
        if section.about:
            parts += [f"{section.about}\n"]
        parts += [_table(section.reasons)]
    return "\n".join(parts)


def _table(reasons: Iterable[Reason]) -> str:
    rows = [
        f'| <a id="{r.name.lower()}"></a>`{r.name}` | {r.means} | {r.resolve} | {"" if r.alert == "none" else r.alert} |'
        for r in reasons
    ]
    return "\n".join(["| Reason | Meaning | What to do | Alert |", "| --- | --- | --- | --- |", *rows, ""])

"""Charts of a run's report as SVG text; colours are CSS classes of the page."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from spindle.balance.propose import NEVER_S
from spindle.report.charts import WIDTH, svg, text
from spindle_rebalance.findings import DiskFinding

_ROW: Final = 22.0
_LEFT: Final = 210.0
_MARKS: Final = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0, 28 * 86400.0, 182 * 86400.0)
_HOUR: Final = 2  # index of the tick where the scale starts, unless a disk is full earlier


def span(seconds: float) -> str:
    """A duration as text: ``40 min``, ``3 h``, ``12 days``; ``never`` above two years."""
    if seconds > NEVER_S:
        return "never"
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def until_full(disks: Sequence[DiskFinding]) -> str:
    """A row per disk: when it is full, with its range, on a logarithmic scale to half a year.

    It starts at one hour, or earlier if a disk is full earlier.
    """
    height = _ROW * len(disks) + 34
    soonest = min((d.full_in_s[1] for d in disks if d.full_in_s is not None), default=_MARKS[_HOUR])
    marks = _MARKS[max([0, *(k for k in range(_HOUR + 1) if _MARKS[k] <= soonest)]) :]
    low_end, high_end = math.log(marks[0]), math.log(marks[-1])

    def x(seconds: float) -> float:
        at = math.log(min(max(seconds, marks[0]), marks[-1]))
        return _LEFT + (WIDTH - _LEFT - 40) * (at - low_end) / (high_end - low_end)

    body = []
    for mark in marks:
        body.append(
            f'<line class="axis" x1="{x(mark):.1f}" y1="0" x2="{x(mark):.1f}" y2="{height - 24:.1f}"/>'
        )
        body.append(text(x(mark), height - 8, span(mark), "middle", "small"))
    for row, d in enumerate(disks):
        if d.full_in_s is None:
            continue
        low, mid, high = d.full_in_s
        y = row * _ROW + 12
        tip = f"expected in {span(mid)}, between {span(low)} and {span(high)}"
        body.append(text(_LEFT - 10, y + 4, f"broker {d.broker} {d.disk or d.dir}", "end", "small"))
        body.append(
            f'<rect class="bar" x="{x(low):.1f}" y="{y - 4:.1f}" width="{max(x(high) - x(low), 2):.1f}" height="8">'
            f"<title>{escape(tip)}</title></rect>"
        )
        body.append(
            f'<circle class="dot" cx="{x(mid):.1f}" cy="{y:.1f}" r="4"><title>{escape(tip)}</title></circle>'
        )
    return svg(height, body, "When each disk is full")


def against_peers(disks: Sequence[DiskFinding]) -> str:
    """A row per slow disk: its request latency compared with the typical latency of its peers."""
    found = [(d, d.slow) for d in disks if d.slow is not None]
    most = max([slow.latency_ms for _, slow in found], default=0.0) or 1.0
    height = _ROW * len(found) + 12
    plot = WIDTH - _LEFT - 150
    body = []
    for row, (d, slow) in enumerate(found):
        y = row * _ROW + 6
        wide, usual = plot * slow.latency_ms / most, _LEFT + plot * slow.peers_ms / most
        body.append(text(_LEFT - 10, y + 11, f"broker {d.broker} {d.disk or d.dir}", "end", "small"))
        body.append(
            f'<rect class="hi3" x="{_LEFT}" y="{y:.1f}" width="{wide:.1f}" height="14"><title>{escape(slow.message)}</title></rect>'
        )
        body.append(
            f'<line class="bound" x1="{usual:.1f}" y1="{y - 2:.1f}" x2="{usual:.1f}" y2="{y + 16:.1f}"/>'
        )
        label = f"{slow.latency_ms:.1f} ms, peers {slow.peers_ms:.1f}"
        body.append(text(_LEFT + wide + 6, y + 11, label, css="small"))
    return svg(height, body, "Slow disks compared with their peers")

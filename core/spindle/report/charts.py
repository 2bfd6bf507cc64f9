"""The report's charts as SVG text: heat map, distribution, gain versus bytes, waves. Colours are CSS classes of the page."""

from collections.abc import Sequence
from html import escape

import numpy as np

from spindle.api import names
from spindle.planner.explain import human
from spindle.planner.planner import PlacementPlan
from spindle.planner.snapshot import FloatArray

WIDTH = 960
_STEPS = 4  # shades on each side of the band
_WIDEST = 90.0  # maximum width of a wave's bar


def svg(height: float, body: Sequence[str], label: str) -> str:
    """A chart from its parts, as wide as the page; the label describes it."""
    inner = "".join(body)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{inner}</svg>'


def text(x: float, y: float, words: str, anchor: str = "start", css: str = "") -> str:
    """Text in a chart, positioned at its baseline."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{escape(words)}</text>'


def shade(plan: PlacementPlan, used: FloatArray, d: int) -> str:
    """CSS class of a dir: ``gone``, ``in``, ``lo1`` … ``lo4`` below its band, ``hi1`` … ``hi4`` above."""
    p = plan.problem
    if not p.usable[d]:
        return "gone"
    fill, capacity = used[d], p.snapshot.capacity[d]
    slack = 1e-6 * capacity
    if p.lo[d] - slack <= fill <= p.hi[d] + slack:
        return "in"
    if fill < p.lo[d]:
        return f"lo{min(_STEPS, 1 + int(_STEPS * (p.lo[d] - fill) / max(p.lo[d], 1.0)))}"
    return f"hi{min(_STEPS, 1 + int(_STEPS * (fill - p.hi[d]) / max(capacity - p.hi[d], 1.0)))}"


def heat_map(plan: PlacementPlan, used: FloatArray, title: str) -> str:
    """One cell per dir; a block per rack, a row per broker."""
    s = plan.problem.snapshot
    racks = [np.flatnonzero(s.rack == k) for k in range(len(s.rack_names))]
    dirs = int(np.diff(s.first_dir).max(initial=1))
    racks = [x for x in racks if len(x)]
    # As many blocks side by side as leave at least six units per cell; the others go below.
    across = max(1, min(len(racks), int(WIDTH / (6 * dirs + 16))))
    cell = min(26.0, (WIDTH / across - 16) / dirs, 900.0 / max(map(len, racks)))
    body, top, row_height = [], 0.0, 0.0
    for k, brokers in enumerate(racks):
        if k and k % across == 0:
            top, row_height = top + row_height, 0.0
        left = (k % across) * (cell * dirs + 16)
        name = s.rack_names[int(s.rack[brokers[0]])] or "no racks"
        body.append(text(left, top + 12, name, css="small"))
        for row, b in enumerate(brokers.tolist()):
            y = top + 18 + row * cell
            for d in range(int(s.first_dir[b]), int(s.first_dir[b + 1])):
                x = left + float(s.dir_row[d]) * cell
                tip = f"{s.dir_label(d)}: {used[d] / s.capacity[d]:.1%} of {human(float(s.capacity[d]))}"
                body.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}" '
                    f'class="{shade(plan, used, d)}"><title>{escape(tip)}</title></rect>'
                )
        row_height = max(row_height, 18 + len(brokers) * cell + 12)
    return svg(top + row_height, body, title)


def bars(plan: PlacementPlan) -> str:
    """A row per dir, for small clusters: usage before and after, on top of its band."""
    p, s = plan.problem, plan.problem.snapshot
    row, left, right, bottom = 26.0, 210.0, 130.0, 26.0
    order = sorted(range(len(s.capacity)), key=lambda d: (int(s.broker[s.dir_broker[d]]), d))
    most = max(float(np.max(x / s.capacity)) for x in (s.used, plan.after, np.minimum(p.hi, s.capacity)))
    scale = (WIDTH - left - right) / max(1.05 * most, 1e-9)
    height = row * len(order) + bottom
    body = []
    for k, d in enumerate(order):
        y, capacity = k * row + 4, float(s.capacity[d])
        before, after = float(s.used[d]) / capacity, float(plan.after[d]) / capacity
        name = short(s.dir_label(d))
        tip = f"{name}: {before:.1%} before, {after:.1%} after, of {human(capacity)}"
        if p.usable[d]:
            lo, hi = float(p.lo[d]) / capacity, min(float(p.hi[d]) / capacity, 1.05 * most)
            body.append(_rect("band", left + scale * lo, y - 3, scale * max(hi - lo, 0.0), row - 2))
        body.append(text(left - 10, y + 12, name, "end", "small"))
        body.append(_rect("was", left, y, scale * before, 7, tip))
        body.append(_rect("now", left, y + 9, scale * after, 7, tip))
        at = left + scale * max(before, after) + 8
        body.append(text(at, y + 12, f"{before:.1%} → {after:.1%}", css="small"))
    body += _axes(
        height, left, bottom, [(left + scale * most * k / 4, f"{most * k / 4:.0%}") for k in range(5)]
    )
    return svg(height, body, "Every dir before and after")


def short(label: str) -> str:
    """``broker 0 disk1`` for the label of a log dir that Spindle manages; other labels are unchanged."""
    return label.replace(f"{names.DISKS_ROOT}/", "").removesuffix(f"/{names.LOG_SUBDIR}")


def _rect(css: str, x: float, y: float, width: float, height: float, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">{title}</rect>'


def _axes(height: float, left: float, bottom: float, ticks_x: Sequence[tuple[float, str]]) -> list[str]:
    parts = [
        f'<line class="axis" x1="{left}" y1="{height - bottom}" x2="{WIDTH - 10}" y2="{height - bottom}"/>'
    ]
    parts += [text(x, height - bottom + 16, words, "middle", "small") for x, words in ticks_x]
    return parts


def distribution(plan: PlacementPlan) -> str:
    """Histogram of the dirs' usage, before and after, on top of the band."""
    p, height, left, bottom = plan.problem, 220.0, 50.0, 34.0
    s, usable = p.snapshot, p.usable
    bins = np.linspace(0, 1, 41)
    counts = [np.histogram((u / s.capacity)[usable], bins)[0] for u in (s.used, plan.after)]
    top = max(int(c.max(initial=1)) for c in counts)
    plot = WIDTH - left - 30

    def x(fill: float) -> float:
        return left + plot * min(max(fill, 0.0), 1.0)

    def y(n: float) -> float:
        return height - bottom - (height - bottom - 14) * n / top

    widest = np.argmax(s.capacity * usable)
    lo, hi = (float(a[widest] / s.capacity[widest]) for a in (p.lo, p.hi))
    body = [
        f'<rect class="band" x="{x(lo):.1f}" y="8" width="{x(hi) - x(lo):.1f}" height="{height - bottom - 8}"/>'
    ]
    body.append(text((x(lo) + x(hi)) / 2, 20, f"band {lo:.0%} to {hi:.0%}", "middle", "small"))
    for count, css in zip(counts, ("before", "after"), strict=True):
        points = [f"{x(0):.1f},{y(0):.1f}"]
        for k, n in enumerate(count.tolist()):
            points += [f"{x(bins[k]):.1f},{y(n):.1f}", f"{x(bins[k + 1]):.1f},{y(n):.1f}"]
        body.append(f'<polyline class="line {css}" points="{" ".join(points)}"/>')
    body += _axes(height, left, bottom, [(x(k / 10), f"{k * 10} %") for k in range(0, 11, 2)])
    body.append(text(left - 8, y(top) + 4, str(top), "end", "small"))
    body.append(text(left - 8, y(0) + 4, "0 dirs", "end", "small"))
    return svg(height, body, "Distribution of usage before and after")


def gain_curve(plan: PlacementPlan) -> str:
    """Bytes out of band versus bytes moved, wave by wave, with the lower bound."""
    height, left, bottom = 240.0, 80.0, 40.0
    points = plan.points
    most = max(points[-1].moved, plan.bound, 1.0)
    top = max(points[0].out_of_band, 1.0)
    plot, tall = WIDTH - left - 30, height - bottom - 20

    def x(moved: float) -> float:
        return left + plot * moved / most

    def y(out: float) -> float:
        return 20 + tall * (1 - out / top)

    line = " ".join(f"{x(q.moved):.1f},{y(q.out_of_band):.1f}" for q in points)
    body = [
        f'<polygon class="area" points="{x(0):.1f},{y(0):.1f} {line} {x(points[-1].moved):.1f},{y(0):.1f}"/>'
    ]
    body.append(f'<polyline class="line after" points="{line}"/>')
    for k, q in enumerate(points):
        tip = f"after wave {k}: {human(q.moved)} moved, {human(q.out_of_band)} out of band" if k else "start"
        body.append(
            f'<circle class="dot" cx="{x(q.moved):.1f}" cy="{y(q.out_of_band):.1f}" r="3"><title>{escape(tip)}</title></circle>'
        )
    if plan.bound:
        at = x(plan.bound)
        body.append(f'<line class="bound" x1="{at:.1f}" y1="12" x2="{at:.1f}" y2="{height - bottom}"/>')
        body.append(text(at - 6, 18, f"bound {human(plan.bound)}", "end", "small"))
    body += _axes(height, left, bottom, [(x(most * k / 4), human(most * k / 4)) for k in range(5)])
    body += [text(left - 8, y(top * k / 2) + 4, human(top * k / 2), "end", "small") for k in range(3)]
    body.append(text(left + plot / 2, height - 4, "bytes moved", "middle", "small"))
    return svg(height, body, "Bytes out of band versus bytes moved")


def waves(plan: PlacementPlan) -> str:
    """Bytes of each wave as bars, and the highest usage of any dir during the wave as a line."""
    n = len(plan.peak)
    if not n:
        return ""
    height, left, bottom = 220.0, 80.0, 40.0
    amount = np.bincount(plan.wave, plan.bytes, n)
    counts = np.bincount(plan.wave, minlength=n)
    plot, tall = WIDTH - left - 50, height - bottom - 20
    step = plot / n
    body = []
    for k, (total, count, peak) in enumerate(
        zip(amount.tolist(), counts.tolist(), plan.peak.tolist(), strict=True)
    ):
        h = tall * total / max(float(amount.max()), 1.0)
        tip = f"wave {k + 1}: {count} moves, {human(total)}, no dir above {peak:.1%}"
        wide = min(max(step - 2, 1), _WIDEST)
        body.append(_rect("bar", left + (k + 0.5) * step - wide / 2, 20 + tall - h, wide, h, tip))
    peaks = [(left + (k + 0.5) * step, 20 + tall * (1 - peak)) for k, peak in enumerate(plan.peak.tolist())]
    limit = 20 + tall * (1 - plan.problem.goals.incoming_limit)
    body.append(f'<line class="bound" x1="{left}" y1="{limit:.1f}" x2="{left + plot}" y2="{limit:.1f}"/>')
    body.append(text(left + plot + 4, limit + 4, f"{plan.problem.goals.incoming_limit:.0%}", css="small"))
    body.append(
        '<polyline class="line peak" points="' + " ".join(f"{a:.1f},{b:.1f}" for a, b in peaks) + '"/>'
    )
    body += [f'<circle class="dot peak" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in peaks]
    every = max(1, n // 20)
    body += _axes(height, left, bottom, [(left + (k + 0.5) * step, str(k + 1)) for k in range(0, n, every)])
    body.append(text(left - 8, 24, human(float(amount.max())), "end", "small"))
    body.append(text(left + plot / 2, height - 4, "wave", "middle", "small"))
    return svg(height, body, "Bytes and peaks of each wave")

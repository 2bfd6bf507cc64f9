"""The report of a plan: one self-contained HTML file, for light and dark mode, to decide whether to execute it."""

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from spindle.model.waiting import counted
from spindle.planner.explain import TITLES, explain, human
from spindle.planner.planner import PlacementPlan
from spindle.planner.problem import PlanBudget
from spindle.planner.snapshot import FloatArray
from spindle.planner.state import MoveReason
from spindle.report import charts

_ROWS: Final = 25  # moves in the table
_FEW: Final = 60  # up to this many dirs are shown as bars, more as cells of a map

_STYLE: Final = """
:root{--ink:#1c2430;--soft:#667085;--line:#d9dee6;--paper:#fbfcfd;--card:#fff;--in:#cfd8dc;--gone:#1c2430;
--lo1:#bfdbf7;--lo2:#85bdf0;--lo3:#4a97df;--lo4:#1f6fc0;--hi1:#fbd9a6;--hi2:#f7ad52;--hi3:#ea7324;--hi4:#c53a16;
--accent:#12805c;--area:#12805c22;--before:#9aa4b2;--band:#12805c14;--bar:#8fb8a9;--peak:#ea7324}
@media(prefers-color-scheme:dark){:root{--ink:#e7ebf0;--soft:#98a2b3;--line:#323b48;--paper:#12161c;--card:#1a2029;
--in:#3a4450;--gone:#e7ebf0;--lo1:#27435e;--lo2:#2d6191;--lo3:#3d8ad0;--lo4:#79b8f5;--hi1:#5a4322;--hi2:#96611f;
--hi3:#e07a2c;--hi4:#ff6a3d;--accent:#3ecf9b;--area:#3ecf9b26;--before:#7b8696;--band:#3ecf9b1c;--bar:#3f7a66}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1040px;margin:0 auto;padding:36px 20px 60px}h1{font-size:27px;line-height:1.25;margin:0 0 6px}
h2{font-size:18px;margin:40px 0 4px}p{margin:4px 0 12px;color:var(--soft);max-width:75ch}
.lead{font-size:16px}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:12px;margin:22px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:13px 15px}
.tile b{display:block;font-size:23px;font-variant-numeric:tabular-nums;line-height:1.3}
.tile span{color:var(--soft);font-size:13px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px;overflow-x:auto;margin-bottom:12px}
svg{display:block;width:100%;height:auto;min-width:720px}svg text{fill:var(--ink);font-size:12px}svg .small{fill:var(--soft);font-size:11px}
.in{fill:var(--in)}.gone{fill:var(--gone)}.lo1{fill:var(--lo1)}.lo2{fill:var(--lo2)}.lo3{fill:var(--lo3)}.lo4{fill:var(--lo4)}
.hi1{fill:var(--hi1)}.hi2{fill:var(--hi2)}.hi3{fill:var(--hi3)}.hi4{fill:var(--hi4)}
.axis{stroke:var(--line)}.line{fill:none;stroke-width:2}.before{stroke:var(--before)}.after{stroke:var(--accent)}
.line.peak{stroke:var(--peak)}.dot{fill:var(--accent)}.dot.peak{fill:var(--peak)}.area{fill:var(--area)}.band{fill:var(--band)}
.was{fill:var(--before)}.now{fill:var(--accent)}.bar{fill:var(--bar)}.bound{stroke:var(--soft);stroke-dasharray:4 3}
.legend{display:flex;gap:16px;flex-wrap:wrap;font-size:13px;color:var(--soft);margin:10px 0}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
h3{font-size:14px;margin:0 0 8px;color:var(--soft);font-weight:600}
table{border-collapse:collapse;width:100%;min-width:720px;font-size:13px}th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:7px 10px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}td.s{white-space:nowrap}.warn{border-left:4px solid var(--hi3)}.warn li{margin:4px 0}ul{margin:6px 0;padding-left:20px}
footer{margin-top:44px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}code{font-size:12px}
"""


def page(plan: PlacementPlan, budget: PlanBudget) -> str:
    """The complete page for one plan."""
    return document("Rebalance plan", [head(plan), *body(plan, budget), foot(plan, budget)])


def document(title: str, parts: Sequence[str]) -> str:
    """A page from HTML parts. It loads nothing: no scripts, no external fonts or images.

    Args:
        title: plain text.
        parts: contents of the page, in order.
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">"""
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>"
    )


def body(plan: PlacementPlan, budget: PlanBudget) -> list[str]:
    """The sections on a plan, in order: figures, goals that were not reached, maps, gain, moves, waves."""
    parts = [_tiles(plan, budget), _unreached(plan), _maps(plan)]
    if len(plan.replica):
        parts += [_curve(plan), _moves(plan), _waves(plan, budget)]
    return parts


def _fill(plan: PlacementPlan, used: FloatArray) -> FloatArray:
    fill: FloatArray = (used / plan.problem.snapshot.capacity)[plan.problem.usable]
    return fill if len(fill) else np.zeros(1)


def head(plan: PlacementPlan) -> str:
    """Title and summary of the plan."""
    s = plan.problem.snapshot
    before, after = _fill(plan, s.used), _fill(plan, plan.after)
    if not len(plan.replica):
        title = "Nothing to move" if not plan.unreached else "Nothing can be moved"
        text = f"Dirs are {before.min():.0%} to {before.max():.0%} full."
    else:
        title = f"{human(float(plan.bytes.sum()))} in {len(plan.replica):,} moves"
        text = (
            f"Dirs go from {before.min():.0%}-{before.max():.0%} to {after.min():.0%}-{after.max():.0%} full. "
            f"Any plan needs at least {human(plan.bound)} for this; this plan needs {plan.ratio - 1:.2%} more."
        )
        if plan.unreached:
            text = text.split(" Any plan")[0]
    where = f"{len(s.broker):,} brokers, {len(s.rack_names)} racks, {len(s.capacity):,} dirs, {s.replicas:,} replicas"
    return f'<h1>{escape(title)}</h1><p class="lead">{escape(text)}<br>{escape(where)}.</p>'


def _tiles(plan: PlacementPlan, budget: PlanBudget) -> str:
    s = plan.problem.snapshot
    total = float(s.size.sum()) or 1.0
    tiles = [
        (f"{float(plan.bytes.sum()) / total:.2%}", "of all bytes are copied"),
        (
            (f"{plan.ratio:.4f}", "times the minimum bytes of any plan")
            if not plan.unreached
            else (human(plan.bound), "minimum to reach every band")
        ),
        (human(plan.bytes_inter), f"between brokers, {human(plan.bytes_intra)} between dirs of a broker"),
        (
            counted(len(plan.peak), "wave"),
            f"about {_long(plan.seconds(budget))} at {human(budget.bytes_per_second)}/s per broker",
        ),
        (f"{plan.peak.max():.1%}" if len(plan.peak) else "-", "highest usage of any dir during the plan"),
        (f"{len(plan.leader):,}", "preferred leaders change (copies no data)"),
    ]
    cells = "".join(
        f'<div class="tile"><b>{escape(big)}</b><span>{escape(text)}</span></div>' for big, text in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _long(seconds: float) -> str:
    """A duration as text: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _unreached(plan: PlacementPlan) -> str:
    items = [escape(text) for text in plan.unreached]
    if not items:
        return ""
    return f'<div class="card warn"><h3>Not reached</h3><ul><li>{"</li><li>".join(items)}</li></ul></div>'


def _maps(plan: PlacementPlan) -> str:
    sides = (
        '<div class="legend"><span><i style="background:var(--before)"></i>before</span>'
        '<span><i style="background:var(--accent)"></i>after</span>'
    )
    if len(plan.problem.snapshot.capacity) <= _FEW:
        return (
            "<h2>Every dir, before and after</h2><p>Usage of each dir, and its target band.</p>"
            f'{sides}<span><i style="background:var(--band)"></i>band</span></div><div class="card">{charts.bars(plan)}</div>'
        )
    legend = "".join(
        f'<span><i style="background:var(--{css})"></i>{text}</span>'
        for css, text in (
            ("lo4", "far below its band"), ("lo2", "below"), ("in", "in its band"), ("hi2", "above"),
            ("hi4", "far above"), ("gone", "to be drained"),
        )
    )  # fmt: skip
    before = charts.heat_map(plan, plan.problem.snapshot.used, "Dirs before")
    after = charts.heat_map(plan, plan.after, "Dirs after")
    return (
        "<h2>Every dir, before and after</h2><p>A block per rack, a row per broker, a cell per dir. Hover over a cell for its numbers.</p>"
        f'<div class="legend">{legend}</div><div class="card"><h3>Before</h3>{before}</div>'
        f'<div class="card"><h3>After</h3>{after}</div>'
        f'<h2>Usage of dirs</h2>{sides}</div><div class="card">{charts.distribution(plan)}</div>'
    )


def _curve(plan: PlacementPlan) -> str:
    return (
        "<h2>Gain versus bytes moved</h2><p>Bytes outside the bands, summed over dirs and brokers, versus bytes moved; a point per wave. "
        f'If you stop after a wave, its gain remains.</p><div class="card">{charts.gain_curve(plan)}</div>'
    )


def _moves(plan: PlacementPlan) -> str:
    rows = []
    for k in np.argsort(-plan.bytes, kind="stable")[:_ROWS].tolist():
        line = explain(plan, k)
        rows.append(
            f'<tr><td class="s">{escape(line.partition)}</td><td class="n">{human(line.size)}</td>'
            f'<td class="s">{escape(charts.short(line.source))}<br>→ {escape(charts.short(line.target))}</td><td class="n">{line.wave + 1}</td>'
            f"<td><b>{escape(line.reason)}</b>: {escape(line.why)}</td></tr>"
        )
    reasons: dict[str, list[float]] = {}
    for k in range(len(plan.replica)):
        reasons.setdefault(TITLES[MoveReason(int(plan.reason[k]))], []).append(float(plan.bytes[k]))
    summary = ", ".join(f"{name}: {len(x):,} ({human(sum(x))})" for name, x in reasons.items())
    return (
        f"<h2>The largest moves</h2><p>All moves by reason: {escape(summary)}.</p>"
        '<div class="card"><table><thead><tr><th>Replica</th><th class="n">Size</th><th>From, to</th><th class="n">Wave</th>'
        f"<th>Why</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _waves(plan: PlacementPlan, budget: PlanBudget) -> str:
    each = f"{human(budget.bytes_per_second)}/s"
    return (
        "<h2>Waves</h2><p>Moves of a wave run in parallel. Bars: bytes. Line: usage of the fullest dir during the wave, with every "
        f"arriving log counted before the leaving ones are deleted. The duration above assumes {each} per broker.</p>"
        f'<div class="card">{charts.waves(plan)}</div>'
    )


def foot(plan: PlacementPlan, budget: PlanBudget) -> str:
    """Goals and limits, and the hash of the planner's input."""
    g = plan.problem.goals
    limits = f"dirs ±{g.dir_band:.0%}, brokers ±{g.broker_band:.0%} of the mean usage ({plan.problem.mean:.1%}), final maximum {g.mark:.0%}, "
    limits += f"limit for incoming data {g.incoming_limit:.0%}"
    if budget.max_bytes is not None:
        limits += f", at most {human(budget.max_bytes)}"
    return f"<footer>Goals: {escape(limits)}.<br>Snapshot <code>{plan.digest}</code></footer>"

"""The report of a run: one self-contained HTML file, to decide about an approval."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from spindle.balance.picture import Picture
from spindle.balance.propose import Result
from spindle.balance.reading import Reading
from spindle.planner.explain import human
from spindle.report import page
from spindle_rebalance import report_charts as charts
from spindle_rebalance.findings import (
    LEAST_TOLD_S,
    DiskFinding,
    Findings,
    ReadReport,
    too_little_history,
)

_ROWS: Final = 40  # disks in a table or chart; those that are full first are listed
_NAMED: Final = 20  # listed unusable records


def render(picture: Picture, reading: Reading, result: Result, findings: Findings | None) -> str:
    """Render the HTML page.

    Args:
        picture: the cluster's state used for planning.
        reading: replicas and disks that were excluded from planning.
        result: result of planning.
        findings: findings from the history; None without history.
    """
    parts = [_head(picture, result), _notes(reading)]
    if result.plan is not None:
        parts += page.body(result.plan, reading.budget)
    if findings is None:
        parts.append("<h2>History</h2><p>There are no samples yet, so growth and slow disks are unknown.</p>")
    else:
        parts += [_forecast(findings.disks), _slow(findings.disks), _read(findings.read)]
    if result.plan is not None:
        parts.append(page.foot(result.plan, reading.budget))
    return page.document(f"Rebalance of {picture.namespace}/{picture.cluster}", parts)


def _head(picture: Picture, result: Result) -> str:
    at = datetime.fromtimestamp(picture.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    proposal = result.proposal
    how = ""
    if proposal is not None:
        how = (
            f"<br>KafkaRebalance <code>{escape(proposal.name)}</code>, expires {escape(proposal.spec.expires)}. To execute "
            f"it: <code>spindle rebalance approve {escape(proposal.name)} -n {escape(picture.namespace)}</code>"
        )
    return (
        f"<h1>{escape(picture.namespace)}/{escape(picture.cluster)}: {escape(result.reason)}</h1>"
        f'<p class="lead">{escape(result.message)}<br>State of the cluster as of {at}.{how}</p>'
    )


def _notes(reading: Reading) -> str:
    if not reading.notes:
        return ""
    items = "</li><li>".join(escape(note) for note in reading.notes)
    return f'<div class="card warn"><h3>Excluded</h3><ul><li>{items}</li></ul></div>'


def _forecast(disks: Sequence[DiskFinding]) -> str:
    told, young = [d for d in disks if d.told], [d for d in disks if not d.told]
    text = (
        "When each disk would be full without moves: the point is the expected time, the bar a range that holds in four of five cases. "
        f"{len(young)} of {len(disks)} disks have too little history yet: forecasts need at least {charts.span(LEAST_TOLD_S)}."
    )
    first = sorted(told, key=lambda d: (d.full_in_s or (0, 0, 0))[1])[:_ROWS]
    rows = "".join(_forecast_row(d) for d in [*first, *young][:_ROWS])
    table = (
        '<table><thead><tr><th>Disk</th><th class="n">Used</th><th class="n">Growth per day</th><th class="n">Full in, expected</th>'
        '<th class="n">Range</th><th class="n">Error in back-test</th></tr></thead><tbody>'
        + rows
        + "</tbody></table>"
    )
    chart = f'<div class="card">{charts.until_full(first)}</div>' if first else ""
    body = f'{chart}<div class="card">{table}</div>' if disks else ""
    return f"<h2>Forecast per disk</h2><p>{text}</p>{body}"


def _forecast_row(d: DiskFinding) -> str:
    used = f'<td class="s">{escape(_label(d))}</td><td class="n">{d.used / max(d.capacity, 1):.1%}</td>'
    if not d.told:
        return f'<tr>{used}<td class="n">?</td><td class="n" colspan="3">{too_little_history([d])}</td></tr>'
    low, mid, high = d.full_in_s or (0.0, 0.0, 0.0)
    growth = "?" if d.level_per_s is None else f"{human(d.level_per_s * 86400)}"
    off = "-" if d.backtest_error_h is None else f"{d.backtest_error_h:.1f} h"
    return (
        f'<tr>{used}<td class="n">{growth}</td>'
        f'<td class="n">{charts.span(mid)}</td><td class="n">{charts.span(low)} to {charts.span(high)}</td><td class="n">{off}</td></tr>'
    )


def _slow(disks: Sequence[DiskFinding]) -> str:
    slow = [d for d in disks if d.slow is not None]
    if not slow:
        return f"<h2>Slow disks</h2><p>None of the {len(disks)} disks is slow compared with its peers.</p>"
    items = "</li><li>".join(f"<b>{escape(_label(d))}</b>: {escape(d.slow.message)}" for d in slow if d.slow)
    return (
        "<h2>Slow disks</h2><p>These disks get no new replicas. Bars: request latency; marks: typical latency of peers of the same "
        f'kind.</p><div class="card">{charts.against_peers(slow[:_ROWS])}</div><div class="card warn"><ul><li>{items}</li></ul></div>'
    )


def _read(read: ReadReport) -> str:
    ranges = "; ".join(f"partition {p}: {a} to {b}" for p, (a, b) in sorted(read.offsets.items()))
    notes = []
    if read.poisoned or read.poison:
        notes.append(f"{max(read.poisoned, len(read.poison))} unusable records were left out:")
        notes += [f"partition {p.partition}, offset {p.offset}: {p.reason}" for p in read.poison[:_NAMED]]
    if read.doubled:
        notes.append(
            f"{read.doubled} duplicate records were left out (the broker had already reported for the interval)"
        )
    notes += [
        f"the clock of broker {c.broker} was {abs(c.seconds):.0f} s {'ahead' if c.seconds > 0 else 'behind'}: "
        f"{c.records} of its records use Kafka's timestamps"
        for c in read.clocks
    ]
    warn = ""
    if notes:
        items = "</li><li>".join(escape(note) for note in notes)
        warn = f'<div class="card warn"><ul><li>{items}</li></ul></div>'
    return (
        f"<h2>What was read</h2><p>{read.records:,} records with {read.rows:,} samples of replicas. Offsets: {escape(ranges or 'none')}."
        f"</p>{warn}"
    )


def _label(d: DiskFinding) -> str:
    return f"broker {d.broker} {d.disk or d.dir}"

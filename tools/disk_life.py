"""The reference page on the life of a disk: its diagram and tables, from the tables in core."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from textwrap import fill

from spindle.disks import classify, correlated_failures, remedy
from spindle.disks.findings import RULES, Rule
from spindle.disks.lifecycle import MEANINGS, TRANSITIONS, DiskState, Transition

_HEAD = (
    "<!-- Made from core/spindle/disks by `make generate`: change the tables there, not this file. -->\n\n"
)


def disk_life_page() -> str:
    """The page."""
    return "\n".join(
        [
            f"{_HEAD}# The life of a disk\n",
            "What `status.disks[].state` of a KafkaBroker can be, and what leads from one state to the next. Every step is",
            "an event with the reason that stands in the last table.\n",
            _diagram(TRANSITIONS),
            "## States\n",
            _table(("State", "What it means"), ((f"`{state}`", MEANINGS[state]) for state in DiskState)),
            "## Steps\n",
            _table(
                ("From", "When", "To", "Reason", "What the event says of the disk"),
                (
                    (f"`{row.source}`", row.trigger, f"`{row.target}`", f"`{row.reason}`", row.sentence)
                    for row in TRANSITIONS
                ),
            ),
            "Of several rows that apply the first one counts. What is not known permits no step.\n",
            "## How a disk is judged\n",
            "The agent looks at each disk every `spec.disks.probeIntervalSeconds` seconds and comes to a verdict, which",
            "stands in `status.observed.disks[]` with its reason. An error must be confirmed by a second probe, which is",
            "made at once; three errors within a minute count too. Meanwhile the disk is `Suspect`.\n",
            _table(
                ("Reason", "Verdict", "Means", "After", "Well again after"),
                (
                    (
                        f"`{reason}`",
                        f"`{rule.verdict}`",
                        rule.meaning,
                        _after(rule),
                        _seconds(rule.leave),
                    )
                    for reason, rule in RULES.items()
                ),
            ),
            _prose(),
        ]
    )


def _diagram(rows: Sequence[Transition]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {DiskState.PROVISIONING}"]
    between = sorted(
        rows, key=lambda row: (list(DiskState).index(row.source), list(DiskState).index(row.target))
    )
    for (source, target), group in groupby(between, key=lambda row: (row.source, row.target)):
        lines.append(f"    {source} --> {target}: {' / '.join(dict.fromkeys(row.trigger for row in group))}")
    return "\n".join([*lines, f"    {DiskState.REMOVED} --> [*]", "```\n"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _after(rule: Rule) -> str:
    if rule.after:
        return _seconds(rule.after)
    return "two probes" if rule.rounds > 1 else "at once"


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _prose() -> str:
    window, hold = classify.WINDOW_SECONDS / 60, classify.HOLD_SECONDS / 60
    paragraphs = (
        f"""A disk that goes bad {classify.FLAPS} times within {window:g} minutes, or keeps changing between kinds of bad, is
        `{classify.FLAPPING}`: its verdict stays until it has been well for {hold:g} minutes on end. A slot that waits for a
        new disk begins without that history.""",
        f"""What Kafka alone gives up (`LogDirOffline`) heals by a restart of the broker, {remedy.RESTART_AFTER_SECONDS:g} s
        after it was seen; a disk that needs a restart more than {remedy.MOST_RESTARTS} times in an hour is emptied like one
        that failed. Where no agent looks, it is emptied after {remedy.EVACUATE_UNSEEN_AFTER_SECONDS:g} s. A full disk
        (`OfflineFull`) has `spec.disks.graceSeconds` to get room again.""",
        f"""When more than `spec.disks.automaticShare` per cent of the cluster's disks, and more than {correlated_failures.LEAST}, go bad
        within {correlated_failures.WINDOW_SECONDS / 60:g} minutes (each broker counted once), nothing is done about them by itself: reason
        `CorrelatedDiskFailures`.""",
    )
    return "\n\n".join(fill(" ".join(each.split()), 110) for each in paragraphs) + "\n"

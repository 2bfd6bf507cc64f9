"""The reference page on disk states: its diagram and tables, from the tables in core."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from textwrap import fill

from spindle.api.enums import DiskState
from spindle.disks import classify, correlated_failures, remedy
from spindle.disks.findings import RULES, Rule
from spindle.disks.lifecycle import MEANINGS, TRANSITIONS, Transition

_HEAD = "<!-- Generated from core/spindle/disks by `make generate`. Change the tables there, not this file. -->\n\n"


def disk_life_page() -> str:
    """Render the page as Markdown."""
    return "\n".join(
        [
            f"{_HEAD}# Disk states\n",
            "The states in `status.disks[].state` of a KafkaBroker and the transitions between them. Each transition emits an",
            "event with the reason given in the table of transitions.\n",
            _diagram(TRANSITIONS),
            "## States\n",
            _table(("State", "Meaning"), ((f"`{state}`", MEANINGS[state]) for state in DiskState)),
            "## Transitions\n",
            _table(
                ("From", "When", "To", "Reason", "Message of the event (after the name of the disk)"),
                (
                    (f"`{row.source}`", row.trigger, f"`{row.target}`", f"`{row.reason}`", row.sentence)
                    for row in TRANSITIONS
                ),
            ),
            "If several rows apply, the first one counts. Unknown facts permit no transition.\n",
            "## Verdicts on disks\n",
            "The agent probes each disk every `spec.disks.probeIntervalSeconds` seconds and reports a verdict with its reason in",
            "`status.observed.disks[]`. A second probe, which follows at once, must confirm an error; three errors within a",
            "minute also count. Meanwhile the disk is `Suspect`.\n",
            _table(
                ("Reason", "Verdict", "Meaning", "After", "Healthy again after"),
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
        f"""A disk that goes bad {classify.FLAPS} times within {window:g} minutes, or keeps changing between bad verdicts, is
        `{classify.FLAPPING}`: its verdict stays until it has been healthy for {hold:g} minutes without interruption. A slot that
        waits for a new disk starts without that history.""",
        f"""If only Kafka reports the log dir offline (`LogDirOffline`), Spindle restarts the broker
        {remedy.RESTART_AFTER_SECONDS:g} s after it was observed; a disk that needs a restart more than {remedy.MOST_RESTARTS} times in
        an hour is evacuated like a failed one. Without an agent, the disk is evacuated after
        {remedy.EVACUATE_UNSEEN_AFTER_SECONDS:g} s. A full disk (`OfflineFull`) is evacuated if it has no free space again within
        `spec.disks.graceSeconds`.""",
        f"""When more than `spec.disks.automaticShare` percent of the cluster's disks, and more than {correlated_failures.LEAST}, go bad
        within {correlated_failures.WINDOW_SECONDS / 60:g} minutes (each broker counts once), Spindle does not act on them automatically: reason
        `CorrelatedDiskFailures`.""",
    )
    return "\n\n".join(fill(" ".join(each.split()), 110) for each in paragraphs) + "\n"

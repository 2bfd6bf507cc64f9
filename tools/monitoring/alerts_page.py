"""The page of all alerts, with a runbook for each."""

from tools.monitoring.alerts import ALERTS, NAMESPACE, Alert

_HEAD = "<!-- Generated from tools/monitoring/alerts.py by `make generate`. Change the alerts there, not this file. -->\n\n"
_ABOUT = """\
The chart's PrometheusRule has these alerts ([how to install it](../monitoring.md)). *Severity* `critical` is for alerts that page somebody,
`warning` for those that can wait for working hours. Expressions use only metrics of [the list](metrics.md).

While `spec.paused` is true, alerts about what Spindle does not do are silent: `SpindleDiskNotHealing`, `SpindleRackSpreadViolated`, `SpindleRolloutStalled` and
`SpindleWaitingTooLong`. While a broker is stopped for maintenance (`spec.maintenance.stopped`), alerts that name this broker are silent: `SpindleDiskNotHealing`,
`SpindleRolloutStalled`, `SpindleAgentSilent` and `SpindleWaitingTooLong`. Alerts about data and availability are never muted.
"""


def alerts_page() -> str:
    """Render the page as Markdown."""
    rows = [f"| [{a.name}](#{a.name.lower()}) | {_severity(a)} | {a.lasts} |" for a in ALERTS]
    table = "\n".join(["| Alert | Severity | After |", "| --- | --- | --- |", *rows, ""])
    return "\n".join([f"{_HEAD}# Alerts\n", _ABOUT, table, *(_runbook(alert) for alert in ALERTS)])


def _severity(alert: Alert) -> str:
    return " or ".join(word for word in ("critical", "warning") if word in alert.severity)


def _runbook(alert: Alert) -> str:
    code = "\n".join(
        f"    {line}".rstrip()
        for line in alert.expression.replace(NAMESPACE, "<operator's namespace>").splitlines()
    )
    return (
        f"## {alert.name}\n\n"
        f"**What it means.** {alert.means}\n\n"
        f"**What Spindle does.** {alert.spindle_does}\n\n"
        f"**What you do.** {alert.you_do}\n\n"
        f"**When you may go on sleeping.** {alert.sleep}\n\n"
        f"{code}\n"
    )

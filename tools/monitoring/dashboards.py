"""Grafana dashboards, made from the list of metrics: Cluster, Disks and Fleet."""

import json
from dataclasses import dataclass
from typing import Any, Final

from spindle.metrics import table
from spindle.metrics.table import BROKER, CLUSTER, DISK, Metric
from tools.monitoring.promql import labels

_ONE: Final = 'namespace="$namespace", kafka_cluster="$kafka_cluster"'
_WIDTH, _HEIGHT = 12, 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """One query of a panel; the legend is a template."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        unit: Grafana's id of a unit.
        kind: ``timeseries``, ``table`` or ``stat``.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"


@dataclass(frozen=True)
class Dashboard:
    """One dashboard; ``one`` for a dashboard of the cluster that its variables choose."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    one: bool = True


def _of(metric: Metric, by: tuple[str, ...], selector: str = _ONE, how: str = "max") -> str:
    if unknown := set(by) - set(metric.labels):
        raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    return f"{how} by {labels(by)} ({metric.name}{f'{{{selector}}}' if selector else ''})"


def _panel(title: str, unit: str, legend: str, *expressions: str, kind: str = "timeseries") -> Panel:
    return Panel(title, unit, tuple(Query(each, legend) for each in expressions), kind)


def _rate(metric: Metric, by: tuple[str, ...], selector: str = _ONE) -> str:
    return (
        f"sum by {labels(by)} (rate({metric.name}{f'{{{selector}}}' if selector else ''}[$__rate_interval]))"
    )


def _threshold(bound: str) -> Query:
    selector = f'{_ONE}, threshold="cordon", bound="{bound}"'
    return Query(
        f"{_of(table.AGENT_THRESHOLD, DISK, selector, 'min')} < 30 * 86400",
        f"{{{{broker}}}} {{{{disk}}}} {bound}",
    )


_SHARE: Final = f"{_of(table.DISK_USED, DISK)} / {_of(table.DISK_CAPACITY, DISK)}"
_NAME: Final = "{{broker}} {{disk}}"
DASHBOARDS: Final = (
    Dashboard(
        "spindle-cluster",
        "Spindle / Cluster",
        (
            _panel("Conditions", "none", "", _of(table.CONDITION, (*CLUSTER, "condition", "status", "reason")), kind="table"),
            _panel("Waiting", "none", "", _of(table.WAITING, (*DISK, "action", "object", "reason", "urgency")), kind="table"),
            _panel("Offline partitions", "none", "offline", _of(table.OFFLINE_PARTITIONS, CLUSTER), kind="stat"),
            _panel("Partitions under min.insync.replicas", "none", "under min ISR", _of(table.UNDER_MIN_ISR, CLUSTER), kind="stat"),
            _panel("Brokers by state", "none", "{{state}}", f"count by (state) ({_of(table.BROKER_STATE, (*BROKER, 'state'))})"),
            _panel("Disks by state", "none", "{{state}}", f"count by (state) ({_of(table.DISK_STATE, (*DISK, 'state'))})"),
            _panel("Lag of the quorum's voters", "none", "{{controller}}", _of(table.VOTER_LAG, (*CLUSTER, "controller"))),
            _panel("Time from start to in sync", "s", "{{broker}} {{kind}}", _of(table.START, (*BROKER, "kind"))),
            _panel("Actions", "ops", "{{type}} {{outcome}}", _rate(table.ACTIONS, ("type", "outcome"))),
            _panel("Passes", "ops", "{{outcome}}", _rate(table.RECONCILES, ("outcome",))),
        ),
    ),
    Dashboard(
        "spindle-disks",
        "Spindle / Disks",
        (
            _panel("Used space", "percentunit", _NAME, _SHARE),
            Panel("Time until the threshold cordon, with the range of the forecast", "s", tuple(_threshold(each) for each in ("low", "at", "high"))),
            _panel("Time of a request", "s", _NAME, _of(table.AGENT_LATENCY, DISK)),
            _panel("The same, median of the node's other disks", "s", _NAME, _of(table.AGENT_PEERS, DISK)),
            _panel("Not answering for", "s", _NAME, f"{_of(table.AGENT_PENDING, DISK)} > 0"),
            _panel("Growth", "Bps", _NAME, _of(table.AGENT_GROWTH, DISK)),
            _panel("Disks that are not Active", "none", "", _of(table.DISK_STATE, (*DISK, "state"), f'{_ONE}, state!="Active"'), kind="table"),
            _panel("Places", "none", "", _of(table.DISK_INFO, (*DISK, "rack", "node", "device", "persistentvolumeclaim", "persistentvolume")), kind="table"),
            _panel("Replicas", "none", _NAME, _of(table.DISK_REPLICAS, DISK)),
            _panel("Moves between disks", "none", "{{broker}} {{state}}", f"{_of(table.AGENT_MOVES, (*BROKER, 'state'))} > 0"),
            _panel("Rate of moves", "Bps", "{{broker}}", _of(table.AGENT_RATE, BROKER)),
            _panel("Corrupt segments", "none", _NAME, f"{_of(table.SCRUB_CORRUPT, DISK)} > 0"),
        ),
    ),
    Dashboard(
        "spindle-fleet",
        "Spindle / Fleet",
        (
            _panel("Clusters", "none", "", _of(table.CLUSTER_INFO, (*CLUSTER, "kafka_version", "metadata_version"), ""), kind="table"),
            _panel("Disks that are not Active", "none", "{{namespace}}/{{kafka_cluster}} {{state}}", f"count by (namespace, kafka_cluster, state) ({_of(table.DISK_STATE, (*DISK, 'state'), 'state!=' + json.dumps('Active'))})"),
            _panel("Waiting for somebody", "none", "{{namespace}}/{{kafka_cluster}}", f"count by (namespace, kafka_cluster) ({_of(table.WAITING, (*CLUSTER, 'action', 'object', 'reason'), 'urgency!=' + json.dumps('none'))})"),
            _panel("Fullest disk", "percentunit", "{{namespace}}/{{kafka_cluster}}", f"max by (namespace, kafka_cluster) ({_of(table.DISK_USED, DISK, '')} / {_of(table.DISK_CAPACITY, DISK, '')})"),
            _panel("Paused", "none", "{{namespace}}/{{kafka_cluster}}", f"{_of(table.PAUSED, CLUSTER, '')} == 1"),
            _panel("Time since the last pass", "s", "{{namespace}}/{{kafka_cluster}}", _of(table.RECONCILE_AGE, CLUSTER, "")),
            _panel("Versions", "none", "", _of(table.BUILD_INFO, ("component", "version"), "", "count"), kind="table"),
            _panel("Agents without enough CPU time", "none", "{{instance}}", f"{table.STARVED.name} == 1"),
        ),
        one=False,
    ),
)  # fmt: skip


def dashboard_json(dashboard: Dashboard) -> str:
    """The file that Grafana loads."""
    content = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["spindle", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables(one=dashboard.one)},
        "panels": [_shown(index, panel) for index, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(content, indent=1) + "\n"


def _variables(*, one: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    ]
    if one:
        paused = table.PAUSED.name
        for name, query in (
            ("namespace", f"label_values({paused}, namespace)"),
            ("kafka_cluster", f'label_values({paused}{{namespace="$namespace"}}, kafka_cluster)'),
        ):
            found.append(
                {
                    "name": name,
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": query,
                    "refresh": 2,
                    "sort": 1,
                }
            )
    return found


def _shown(index: int, panel: Panel) -> dict[str, Any]:
    plain = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend,
            **({"instant": True, "format": "table"} if plain else {}),
        }
        for number, query in enumerate(panel.queries)
    ]
    return {
        "id": index + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {
            "x": index % 2 * _WIDTH,
            "y": index // 2 * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }

"""The dashboards: each ConfigMap holds one, and each query is valid PromQL about metrics of the list."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_prometheus
from spindle.metrics.table import all_metrics
from tests.chart.conftest import Render
from tools.monitoring.dashboards import DASHBOARDS

SERIES = {series: metric for metric in all_metrics() for series in metric.series}


@pytest.fixture(scope="module")
def boards(render: Render) -> list[dict[str, Any]]:
    objects = render("metrics.dashboards.enabled=true")
    maps = [made for made in objects if made["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    assert {made["kind"] for made in maps} == {"ConfigMap"}
    return [json.loads(text) for made in maps for text in made["data"].values()]


def expressions(boards: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]


def test_there_are_three_and_none_by_default(boards: list[dict[str, Any]], render: Render) -> None:
    assert {board["uid"] for board in boards} == {"spindle-cluster", "spindle-disks", "spindle-fleet"}
    assert len(boards) == len(DASHBOARDS)
    assert [made for made in render() if made["kind"] == "ConfigMap"] == []


def test_queries_are_valid(boards: list[dict[str, Any]], tmp_path: Path) -> None:
    rules = [
        {"record": f"r{i}", "expr": expression.replace("$__rate_interval", "5m")}
        for i, expression in enumerate(expressions(boards))
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    command = [str(ensure_prometheus() / "promtool"), "check", "rules", str(tmp_path / "rules.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_queries_name_only_metrics_of_the_list_with_their_labels(boards: list[dict[str, Any]]) -> None:
    for expression in expressions(boards):
        named = re.findall(r"\b(spindle_\w+)(?:\{([^}]*)\})?", expression)
        assert named, expression
        for name, matchers in named:
            assert name in SERIES, expression
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= set(SERIES[name].labels), expression


def test_legends_name_labels_that_the_query_keeps(boards: list[dict[str, Any]]) -> None:
    for board in boards:
        for panel in board["panels"]:
            for target in panel["targets"]:
                for label in set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) - {"instance"}:
                    assert re.search(rf"\bby \([^)]*\b{label}\b", target["expr"]), target


def test_panels_do_not_overlap(boards: list[dict[str, Any]]) -> None:
    for board in boards:
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        assert len(set(places)) == len(places)
        assert len({panel["id"] for panel in board["panels"]}) == len(places)

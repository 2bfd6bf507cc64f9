"""The chart's alerts, evaluated by promtool on series as the exporters have them."""

import re
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_prometheus
from spindle.metrics.table import DISK, all_metrics
from spindle.reasons import all_reasons
from tests.chart.conftest import Render
from tools.monitoring import alerts
from tools.monitoring.alerts import ALERTS

METRICS = {metric.name: metric for metric in all_metrics()}
C = {"namespace": "kafka", "kafka_cluster": "demo"}
B = {**C, "broker": "demo-broker-1"}
D = {**B, "disk": "disk3"}
PLACE = {"rack": "zone-b", "node": "n7", "device": "/dev/nvme3n1"}
INFO = {
    **PLACE,
    "persistentvolumeclaim": "data-disk3-demo-1",
    "persistentvolume": "pv9",
    "pod": "demo-broker-1",
}
# Labels of the target, which an exporter does not know.
OPERATORS = ({"instance": "10.0.0.1:8080", "job": "spindle"}, {"instance": "10.0.0.2:8080", "job": "spindle"})
# What a healthy cluster exports, whatever the alert.
HEALTHY: dict[str, list[tuple[dict[str, str], float]]] = {
    "spindle_leader": [({"namespace": "system"}, 1)],
    "spindle_reconcile_age_seconds": [(C, 20)],
    "spindle_cluster_paused": [(C, 0)],
    "spindle_cluster_condition": [({**C, "condition": "DataAtRisk", "status": "False", "reason": "EnoughCopies"}, 1)],
    "spindle_offline_partitions": [(C, 0)],
    "spindle_under_min_isr_partitions": [(C, 0)],
    "spindle_controllers": [(C, 3)],
    "spindle_quorum_voter_caught_up": [({**C, "controller": f"demo-controller-{i}"}, 1) for i in range(3)],
    "spindle_broker_info": [({**B, "broker_id": "1", "pool": "main", "rack": "zone-b", "node": "n7", "pod": "demo-broker-1"}, 1)],
    "spindle_broker_maintenance": [(B, 0)],
    "spindle_broker_agent_up": [({**B, "node": "n7"}, 1)],
    "spindle_disk_info": [({**D, **INFO}, 1), ({**D, **INFO, "disk": "disk4"}, 1)],
    "spindle_disk_state": [({**D, "state": "Active"}, 1)],
    "spindle_disk_usage_level": [({**D, "level": "Cordon"}, 1)],
    "spindle_agent_disk_threshold_seconds": [({**D, "threshold": "blockProducers", "bound": "at"}, 1e6), ({**D, "threshold": "warn", "bound": "at"}, 10)],
    # Waits that need nobody, or not for an hour.
    "spindle_waiting": [({**B, "disk": "", "action": "RestartPod", "object": "Pod/demo-broker-1", "reason": "WouldBeUnderMinIsr", "urgency": "none"}, 1)],
}  # fmt: skip


def waiting(reason: str, urgency: str, thing: str = "Pod/demo-broker-1", broker: str = "demo-broker-1", disk: str = "") -> dict[str, Any]:  # fmt: skip
    labels = {**C, "broker": broker, "disk": disk, "action": "Do", "object": thing, "reason": reason}
    return {"spindle_waiting": [({**labels, "urgency": urgency}, 1)]}


CONDITION = {**C, "condition": "DataAtRisk", "status": "True", "reason": "LastReplicaAtRisk"}
FAILED = {"spindle_disk_state": [({**D, "state": "Failed"}, 1)]}
EVACUATING = {"spindle_disk_state": [({**D, "state": "Evacuating"}, 1)]}
STALL = waiting("CrashLooping", "ticket")

# Alert, changed series, and the labels of what fires. Each case fires exactly one alert, unless others are named.
Case = tuple[str, Mapping[str, Any], list[dict[str, str]]]
FIRES: dict[str, Case] = {
    "failed": ("DiskNotHealing", FAILED, [{**D, **PLACE, "state": "Failed", "severity": "warning"}]),
    "evacuating, and held": (
        "DiskNotHealing",
        EVACUATING | waiting("NoSpace", "ticket", "KafkaBroker/demo-broker-1/disk3", disk="disk3"),
        [{**D, **PLACE, "state": "Evacuating", "severity": "warning"}],
    ),
    "at risk by a disk": (
        "DataAtRisk",
        EVACUATING | {"spindle_cluster_condition": [(CONDITION, 1)]},
        [{**D, **PLACE, "severity": "critical"}],
    ),
    "at risk by a node": (
        "DataAtRisk",
        {"spindle_cluster_condition": [(CONDITION, 1)]},
        [{**C, "severity": "critical"}],
    ),
    "offline": ("OfflinePartitions", {"spindle_offline_partitions": [(C, 4)]}, [{**C, "severity": "critical"}]),
    "offline by a disk": (
        "OfflinePartitions",
        EVACUATING | {"spindle_offline_partitions": [(C, 4)]},
        [{**D, **PLACE, "severity": "critical"}],
    ),
    "under min isr": ("UnderMinIsr", {"spindle_under_min_isr_partitions": [(C, 2)]}, [{**C, "severity": "critical"}]),
    "full within a day": (
        "DiskFullWithinADay",
        {"spindle_agent_disk_threshold_seconds": [({**D, "threshold": "blockProducers", "bound": "at"}, 7200)]},
        [{**D, **PLACE, "severity": "warning"}],
    ),
    "last resort": (
        "LastResortActive",
        {"spindle_disk_usage_level": [({**D, "level": "BlockProducers"}, 1)]},
        [{**D, **PLACE, "level": "BlockProducers", "severity": "critical"}],
    ),
    "rack spread": (
        "RackSpreadViolated",
        waiting("RackSpreadViolated", "ticket", "KafkaCluster/demo", ""),
        [{**C, "object": "KafkaCluster/demo", "reason": "RackSpreadViolated", "severity": "warning"}],
    ),
    "rollout stalled": (
        "RolloutStalled",
        STALL,
        [{**B, "object": "Pod/demo-broker-1", "reason": "CrashLooping", "severity": "warning"}],
    ),
    "agent silent": (
        "AgentSilent",
        {"spindle_broker_agent_up": [({**B, "node": "n7"}, 0)]},
        [{**B, "node": "n7", "rack": "zone-b", "severity": "warning"}],
    ),
    "no operator": ("OperatorDown", {"spindle_leader": [({"namespace": "system"}, 0)]}, [{"severity": "critical"}]),
    "no series of an operator": ("OperatorDown", {"spindle_leader": []}, [{"severity": "critical"}]),
    "no pass": ("OperatorDown", {"spindle_reconcile_age_seconds": [(C, 1000)]}, [{**C, "severity": "critical"}]),
    "a voter lags": (
        "QuorumLagging",
        {"spindle_quorum_voter_caught_up": [({**C, "controller": f"demo-controller-{i}"}, float(i > 0)) for i in range(3)]},
        [{**C, "controller": "demo-controller-0", "severity": "warning"}],
    ),
    "no quorum": ("QuorumLagging", {"spindle_quorum_voter_caught_up": []}, [{**C, "severity": "critical"}]),
    "waits for a user": (
        "WaitingTooLong",
        waiting("RestartDeadlock", "page"),
        [{**B, "action": "Do", "object": "Pod/demo-broker-1", "reason": "RestartDeadlock", "urgency": "page", "severity": "critical"}],
    ),
    "waits for a disk": (
        "WaitingTooLong",
        waiting("ReplacementNeeded", "ticket", "KafkaBroker/demo-broker-1/disk3", disk="disk3"),
        [{**D, **PLACE, "action": "Do", "object": "KafkaBroker/demo-broker-1/disk3", "reason": "ReplacementNeeded", "urgency": "ticket", "severity": "warning"}],
    ),
}  # fmt: skip
PAUSED = {"spindle_cluster_paused": [(C, 1)]}
MAINTAINED = {"spindle_broker_maintenance": [(B, 1)]}
MUTED: dict[str, Mapping[str, Any]] = {
    "healthy": {},
    "paused: failed disk": FAILED | PAUSED,
    "paused: rack spread": waiting("RackSpreadViolated", "ticket", "KafkaCluster/demo", "") | PAUSED,
    "paused: rollout": STALL | PAUSED,
    "paused: waiting": waiting("RestartDeadlock", "page") | PAUSED,
    "stopped: failed disk": FAILED | MAINTAINED,
    "stopped: rollout": STALL | MAINTAINED,
    "stopped: agent": {"spindle_broker_agent_up": [({**B, "node": "n7"}, 0)]} | MAINTAINED,
    "stopped: waiting": waiting("LogDirsUnknown", "ticket") | MAINTAINED,
    "evacuating": EVACUATING,
    "evacuating, and Spindle continues by itself": EVACUATING | waiting("PlanPending", "none", disk="disk3"),
    "a deleted cluster": {name: [] for name in HEALTHY} | {"spindle_leader": HEALTHY["spindle_leader"]},
}


@pytest.fixture(scope="module")
def rule(render: Render) -> dict[str, Any]:
    objects = render("metrics.rules.enabled=true", "metrics.rules.runbookUrl=https://wiki.example/alerts")
    (found,) = [made for made in objects if made["kind"] == "PrometheusRule"]
    return found


@pytest.fixture(scope="module")
def promtool(rule: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    folder = tmp_path_factory.mktemp("alerts")
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    program = ensure_prometheus() / "promtool"

    def run(*arguments: str, tests: list[dict[str, Any]] | None = None) -> str:
        content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests or []}
        (folder / "tests.yaml").write_text(yaml.safe_dump(content))
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def series(changed: Mapping[str, Any], until: int) -> list[dict[str, str]]:
    """Input series for so many minutes, each from both operators' pods: for a moment two may export the same cluster."""
    found = []
    for name, samples in (HEALTHY | dict(changed)).items():
        for labels, value in samples:
            assert set(labels) == {
                *METRICS[name].labels,
                *({"namespace"} if name == "spindle_leader" else ()),
            }
            for target in OPERATORS:
                shown = ",".join(f'{key}="{text}"' for key, text in {**labels, **target}.items())
                found.append({"series": f"{name}{{{shown}}}", "values": f"{value:g}x{until}"})
    return found


def test_the_rules_are_valid(promtool: Callable[..., str]) -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "rules.yaml")


def test_each_alert_fires_for_its_fault_and_no_other_does(
    promtool: Callable[..., str], rule: dict[str, Any]
) -> None:
    rules = {each["alert"]: each for each in rule["spec"]["groups"][0]["rules"]}
    tests = []
    for name, (short, changed, fired) in FIRES.items():
        alert = f"Spindle{short}"
        minutes = _minutes(rules[alert]["for"])
        expected = [{"exp_labels": labels, "exp_annotations": _annotations(alert, labels, changed)} for labels in fired]  # fmt: skip
        checks = [
            {"eval_time": "62m", "alertname": other, "exp_alerts": expected if other == alert else []}
            for other in rules
            # Two alerts about one fault: a wait of which a disk's own alert tells more.
            if (alert, other) != ("SpindleDiskNotHealing", "SpindleWaitingTooLong")
        ]
        early = {"eval_time": f"{minutes - 1}m", "alertname": alert, "exp_alerts": []}
        tests.append({"name": name, "interval": "1m", "input_series": series(changed, 64), "alert_rule_test": [early, *checks]})  # fmt: skip
    promtool("test", "rules", "tests.yaml", tests=tests)


def test_what_is_healthy_intended_or_about_to_end_fires_nothing(
    promtool: Callable[..., str], rule: dict[str, Any]
) -> None:
    names = [each["alert"] for each in rule["spec"]["groups"][0]["rules"]]
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": series(changed, 64),
            "alert_rule_test": [{"eval_time": "62m", "alertname": each, "exp_alerts": []} for each in names],
        }
        for name, changed in MUTED.items()
    ]
    promtool("test", "rules", "tests.yaml", tests=tests)


def _minutes(text: str) -> int:
    number, unit = int(text[:-1]), text[-1]
    return number * {"m": 1, "h": 60}[unit]


def _annotations(alert: str, labels: Mapping[str, str], changed: Mapping[str, Any]) -> dict[str, str]:
    return {
        "summary": _summary(alert, labels, changed),
        "runbook_url": f"https://wiki.example/alerts#{alert.lower()}",
    }


def _summary(alert: str, labels: Mapping[str, str], changed: Mapping[str, Any]) -> str:
    place = "/dev/nvme3n1 on node n7, rack zone-b"
    bad = f"; disk3 of demo-broker-1 has failed ({place})" if "disk" in labels else ""
    value = {name: samples[0][1] for name, samples in changed.items() if samples}
    disk = f"disk3 of demo-broker-1 ({place})"
    texts = {
        "SpindleDiskNotHealing": f"{disk} has failed and is not being evacuated",
        "SpindleDataAtRisk": f"the last in-sync replica of partitions is on a failed disk or node{bad}",
        "SpindleOfflinePartitions": f"{value.get('spindle_offline_partitions')} partitions have no leader{bad}",
        "SpindleUnderMinIsr": "2 partitions have fewer in-sync replicas than min.insync.replicas",
        "SpindleDiskFullWithinADay": f"{disk} will reach its highest threshold (blockProducers) in 2h 0m 0s",
        "SpindleLastResortActive": f"{disk} is so full that Spindle applies BlockProducers",
        "SpindleRackSpreadViolated": "partitions are on fewer racks than they could be",
        "SpindleRolloutStalled": "Pod/demo-broker-1 did not come back from a restart (CrashLooping)",
        "SpindleAgentSilent": "no agent watches the disks of demo-broker-1 (node n7, rack zone-b)",
        "SpindleQuorumLagging": f"{labels['controller']} lags behind the quorum" if "controller" in labels else "Kafka reports no controller quorum",
        "SpindleWaitingTooLong": f"Do of {labels.get('object')} waits: {labels.get('reason')}" + (f" ({place})" if labels.get("disk") else ""),
    }  # fmt: skip
    if alert == "SpindleOperatorDown":
        if "kafka_cluster" in labels:
            return "No pass of kafka/demo has ended for 16m 40s"
        return "No Spindle operator leads in namespace system"
    return f"kafka/demo: {texts[alert]}"


# --- what the expressions may name

_WORDS = frozenset({"absent", "and", "by", "group_left", "group_right", "max", "min", "on", "or", "unless"})


def _selectors(expression: str) -> list[tuple[str, set[str]]]:
    """Each metric of an expression with the labels of its matchers."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    plain = re.sub(r"\b(by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)", r"\1 ", plain)
    found = []
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?", plain):
        if name not in _WORDS:
            found.append((name, set(re.findall(r"(\w+)\s*[=!]", matchers))))
    return found


def test_expressions_name_only_metrics_and_labels_of_the_list(rule: dict[str, Any]) -> None:
    for each in rule["spec"]["groups"][0]["rules"]:
        named = _selectors(re.sub(r"\{[^}]*\}", lambda m: re.sub(r"\s", "", m[0]), each["expr"]))
        assert named, each["alert"]
        for name, matched in named:
            assert name in METRICS, f"{each['alert']} names {name}"
            # The namespace of the target, of a metric that has none of its own.
            assert matched <= {*METRICS[name].labels, "namespace"}, each["alert"]


def test_the_parser_of_this_test_sees_what_is_wrong() -> None:
    assert _selectors('max by (a) (foo{x="1"}) unless on (a) bar == 1') == [("foo", {"x"}), ("bar", set())]


def test_reasons_and_levels_in_expressions_exist() -> None:
    known = {reason.name for reason in all_reasons()}
    assert {*alerts.STALLED, *alerts.SPREAD, *alerts.LAST_RESORT, alerts.AT_RISK} <= known
    assert set(alerts.LAST_RESORT_LEVELS) <= known


def test_every_alert_about_a_disk_says_where_it_is(rule: dict[str, Any]) -> None:
    for each in rule["spec"]["groups"][0]["rules"]:
        assert each["alert"].startswith("Spindle")
        if "disk" in each["expr"] and "info" in each["expr"] and "broker_info" not in each["expr"]:
            for label in (DISK[-1], "node", "device", "rack"):
                assert f"$labels.{label}" in each["annotations"]["summary"], each["alert"]


def test_values_shorten_the_times_and_name_the_runbooks(render: Render) -> None:
    def rules(*values: str) -> list[dict[str, Any]]:
        objects = render("metrics.rules.enabled=true", "metrics.rules.labels.release=prom", *values)
        (found,) = [made for made in objects if made["kind"] == "PrometheusRule"]
        assert found["metadata"]["labels"]["release"] == "prom"
        assert found["metadata"]["namespace"] == "system"
        return list(found["spec"]["groups"][0]["rules"])

    plain, short = rules(), rules("metrics.rules.for=5s")
    assert [each["for"] for each in plain] == [alert.lasts for alert in ALERTS]
    assert {each["for"] for each in short} == {"5s"}
    assert all("runbook_url" not in each["annotations"] for each in plain)
    assert [made for made in render() if made["kind"] == "PrometheusRule"] == []


def test_twelve_alerts_each_with_a_whole_runbook() -> None:
    assert len(ALERTS) == len({alert.name for alert in ALERTS}) == 12
    assert {short for short, _, _ in FIRES.values()} == {
        alert.name.removeprefix("Spindle") for alert in ALERTS
    }
    for alert in ALERTS:
        assert all((alert.means, alert.spindle_does, alert.you_do, alert.sleep)), alert.name

from typing import Any

from prometheus_client import REGISTRY

from spindle_operator import metrics


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_gauges_mirror_the_status_and_forget_what_is_over() -> None:
    brokers: dict[str, dict[str, Any]] = {
        "b0": {
            "state": "Ready",
            "disks": [{"state": "Active", "usage": {"level": "Warn"}}, {"state": "Failed"}],
        },
        "b1": {"state": "Ready"},
    }
    metrics.observe_status("ns/a", {"waiting": [{"reason": "NoRoom"}, {"reason": "NoRoom"}]}, brokers)
    metrics.observe_status("ns/b", {"waiting": [{"reason": "NoRoom"}]}, {})
    assert value("spindle_waiting", cluster="ns/a", reason="NoRoom") == 2
    assert value("spindle_brokers", cluster="ns/a", state="Ready") == 2
    assert value("spindle_disks", cluster="ns/a", state="Failed") == 1
    assert value("spindle_disk_usage_level", cluster="ns/a", level="Warn") == 1
    metrics.observe_status("ns/a", {}, brokers)
    assert value("spindle_waiting", cluster="ns/a", reason="NoRoom") is None
    metrics.forget("ns/a")
    assert value("spindle_disks", cluster="ns/a", state="Failed") is None
    assert value("spindle_disk_usage_level", cluster="ns/a", level="Warn") is None
    assert value("spindle_waiting", cluster="ns/b", reason="NoRoom") == 1
    metrics.forget("ns/b")


def test_histograms_are_forgotten_too() -> None:
    metrics.DURATION.labels("ns/a").observe(1)
    metrics.RECONCILES.labels("ns/a", "settled").inc()
    metrics.forget("ns/a")
    assert value("spindle_reconcile_duration_seconds_count", cluster="ns/a") is None
    assert value("spindle_reconciles_total", cluster="ns/a", outcome="settled") is None

"""The queries of docs/monitoring.md, evaluated by promtool on series as the exporters have them; e2e runs them on real exporters."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.build import ensure_prometheus
from tools.monitoring.documented import documented_queries

QUERIES = documented_queries()
B = {"namespace": "kafka", "kafka_cluster": "demo", "broker": "demo-broker-1", "pod": "demo-broker-1"}
LIVE = ("disk1", "disk2")
DEAD = ("disk3", "disk4")  # their devices are not known
# Labels of the target. For a moment, two operators may export the same cluster.
OPERATORS = ({"instance": "10.0.0.1:8080", "job": "spindle"}, {"instance": "10.0.0.2:8080", "job": "spindle"})


def info(disk: str) -> dict[str, str]:
    place = {"node": "n7", "persistentvolumeclaim": f"data-{disk}", "persistentvolume": f"pv-{disk}"}
    return {**B, **place, "disk": disk, "device": f"/dev/{disk}" if disk in LIVE else ""}


def series() -> dict[str, list[dict[str, str]]]:
    """Name of a metric → labels of its series."""
    claims = [{"namespace": "kafka", "persistentvolumeclaim": f"data-{disk}"} for disk in (*LIVE, *DEAD)]
    # As the exporter on the node has them: it is no pod of Kafka.
    node = {"namespace": "monitoring", "pod": "node-exporter-x", "node": "n7", "instance": "10.0.0.9:9100"}
    mounts = ("/mnt/disks", "/var/lib/kubelet/pods")
    return {
        "spindle_disk_info": [{**info(disk), **operator} for disk in (*LIVE, *DEAD) for operator in OPERATORS],
        "spindle_disk_state": [{**B, "disk": disk, "state": "Active"} for disk in LIVE],
        "kubelet_volume_stats_inodes_free": [{**claim, "instance": "10.0.0.9:10250"} for claim in claims],
        "kube_persistentvolumeclaim_info": [{**claim, "storageclass": "local"} for claim in claims],
        "kube_persistentvolume_status_phase": [
            {"persistentvolume": f"pv-{disk}", "phase": "Bound"} for disk in (*LIVE, *DEAD)
        ],
        "kube_pod_info": [{"namespace": "kafka", "pod": B["pod"], "node": "n7", "host_ip": "10.0.0.9"}],
        "node_filesystem_size_bytes": [
            {**node, "device": f"/dev/{disk}", "mountpoint": f"{mount}/{disk}"} for disk in LIVE for mount in mounts
        ],
        "node_disk_io_time_seconds_total": [{**node, "device": disk} for disk in (*LIVE, *DEAD)],
    }  # fmt: skip


def written(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def test_the_page_has_a_query_for_each_exporter() -> None:
    for metric in ("kubelet_volume_stats_", "kube_persistentvolumeclaim_info", "kube_pod_info", "node_disk_"):
        assert any(metric in query for query in QUERIES.values()), metric
    named = {metric for metric in series() for query in QUERIES.values() if metric in query}
    assert named == set(series())  # each metric of the test is one of the page


@pytest.mark.parametrize("question", QUERIES)
def test_a_query_finds_each_disk(question: str, tmp_path: Path) -> None:
    """Also while two dead disks on one node have no known device."""
    query = QUERIES[question]
    found = LIVE if "(node, device)" in query else (*LIVE, *DEAD)
    each = {"value": 1}
    expected: list[dict[str, Any]] = [
        {**each, "labels": written({"broker": B["broker"], "disk": disk})} for disk in found
    ]
    # Both operators' series of a disk count as one.
    counted = f"count by (broker, disk) (max by (broker, disk) ({query}))"
    if "spindle_disk_info" not in query:
        counted, expected = query, [
            {"value": len(LIVE), "labels": written({"namespace": "kafka", "kafka_cluster": "demo", "state": "Active"})}
        ]  # fmt: skip
    samples = [
        {"series": f"{name}{written(labels)}", "values": "1x20"}
        for name, many in series().items()
        for labels in many
    ]
    evaluated = {"expr": counted, "eval_time": "10m", "exp_samples": expected}
    case = {"interval": "1m", "input_series": samples, "promql_expr_test": [evaluated]}
    (tmp_path / "case.yaml").write_text(yaml.safe_dump({"tests": [case]}))
    command = [str(ensure_prometheus() / "promtool"), "test", "rules", "case.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""Objects as the API server would give them, for tests of the command line."""

from typing import Any

NOW = "2026-03-04T10:00:00+00:00"


def condition(kind: str, status: str, reason: str = "Because", message: str = "It is so.") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def cluster(name: str = "demo", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaCluster",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {
            "version": "4.3.1",
            "controllers": {"replicas": 3, "storage": {"size": "1Gi"}},
            "brokerPools": [
                {
                    "name": "main",
                    "replicas": 3,
                    "disks": {"count": 2, "size": "100Gi", "storageClass": "local"},
                }
            ],
        },
        **({"status": {"observedGeneration": 1, **status}} if status else {}),
    }


def ready(name: str = "demo", **status: Any) -> dict[str, Any]:
    return cluster(
        name,
        **{
            "phase": "All 3 brokers and 3 controllers are ready.",
            "version": "4.3.1",
            "bootstrap": f"{name}-bootstrap.default.svc:9092",
            "brokers": {"total": 3, "ready": 3},
            "controllers": {"total": 3, "ready": 3},
            "disks": {"total": 6, "healthy": 6},
            "racks": [{"rack": f"zone-{letter}", "brokers": [number]} for number, letter in enumerate("abc")],
            "conditions": [condition("Ready", "True"), condition("DataAtRisk", "False")],
            **status,
        },
    )


def disk(broker: int, name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "logDir": f"/var/lib/kafka/disks/{name}/log",
        "state": "Active",
        "pv": f"node{broker + 1}-{name}",
        "node": f"node{broker + 1}",
        "device": f"/dev/loop{broker * 2}",
        "path": f"/mnt/spindle/{name}",
        "capacityBytes": 310_000_000,
        "usedBytes": 31_000_000,
        "replicas": 12,
        **more,
    }


def broker(number: int, *disks: dict[str, Any], state: str = "Running", of: str = "demo") -> dict[str, Any]:
    seen = list(disks) or [disk(number, "disk0"), disk(number, "disk1")]
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaBroker",
        "metadata": {"name": f"{of}-broker-{number}", "namespace": "default", "generation": 1},
        "spec": {
            "cluster": of,
            "id": number,
            "pool": "main",
            "node": f"node{number + 1}",
            "rack": f"zone-{'abc'[number % 3]}",
            "disks": [
                {"name": each["name"], "claim": f"data-{each['name']}-{of}-{number}", "directoryId": "A" * 22}
                for each in seen
            ],
        },
        "status": {
            "state": state,
            "message": "In sync.",
            "disks": seen,
            "disksSummary": "2/2",
            "fullest": "10%",
        },
    }


def pod(
    name: str, phase: str = "Running", *, ready: bool = True, node: str | None = "node1"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": []} if node else {"containers": []},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }

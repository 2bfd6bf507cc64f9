"""Realistic objects of one cluster, of any size, for the map: its tests, its picture in the README, its measurements."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from spindle.api import names
from spindle.moves.copy_progress import CopyProgress
from spindle.moves.journal import Journal, Move, render

TIB: Final = 1 << 40
_DAY: Final = 86_400
_REASONS: Final = {
    "Failed": ("DiskFailed", "A probe failed 3 times: Input/output error."),
    "Evacuating": ("EvacuationStarted", "Its replicas are rebuilt on other disks."),
    "Cordoned": ("CordonRequested", "Kafka uses it but places no new replicas on it."),
    "Backfilling": (
        "BackfillStarted",
        "Kafka has just started to use it; it is being backfilled by planned moves.",
    ),
    "Draining": (
        "DrainRequested",
        "Its replicas are moved away, because the user requested it or the spec removes the disk.",
    ),
    "Evacuated": (
        "DiskEvacuated",
        "It holds no replica any more and the broker runs without it: safe to pull.",
    ),
}


def stamp(seconds: float = 0.0) -> str:
    """The time so many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster(name: str, brokers: int, disks: int, **status: Any) -> dict[str, Any]:
    """A KafkaCluster with its status."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": name},
        "spec": {
            "version": "4.3.1",
            "controllers": {"replicas": 3, "storage": {"size": "10Gi"}},
            "brokerPools": [
                {
                    "name": "main",
                    "replicas": brokers,
                    "disks": {"count": disks, "size": "8Ti", "storageClass": "local"},
                }
            ],
            "racks": {"topologyKey": "topology.kubernetes.io/zone"},
        },
        "status": {
            "phase": f"{brokers} brokers and 3 controllers are ready.",
            "version": "4.3.1",
            "conditions": [condition("Ready", "True"), condition("DataAtRisk", "False")],
            **status,
        },
    }


def condition(kind: str, status: str, reason: str = "AsExpected", message: str = "") -> dict[str, Any]:
    """A condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(-3600),
    }


def waiting(action: str, obj: str, reason: str, message: str, unblocked_by: str) -> dict[str, Any]:
    """An entry of status.waiting, a few minutes old."""
    return {
        "action": action,
        "object": obj,
        "reason": reason,
        "message": message,
        "since": stamp(-1380),
        "unblockedBy": unblocked_by,
    }


def broker(
    of: str, number: int, disks: int, racks: int = 3, states: dict[int, str] | None = None
) -> dict[str, Any]:
    """A KafkaBroker as operator and agent report it.

    Args:
        states: of disks that are not Active, by the disk's number.
    """
    random = Random(number)
    rack = f"zone-{'abcdefghij'[number % racks]}"
    node = f"node-{rack[-1]}{number // racks + 1:02}"
    of_disk = states or {}
    seen = [_disk(random, number, index, node, of_disk.get(index, "Active")) for index in range(disks)]
    bad = [
        f"disk{index}" for index, state in of_disk.items() if state in ("Failed", "Evacuating", "Evacuated")
    ]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaBroker",
        "metadata": {"name": f"{of}-broker-{number}"},
        "spec": {
            "cluster": of,
            "id": number,
            "pool": "main",
            "node": node,
            "rack": rack,
            "disks": [
                {
                    "name": each["name"],
                    "claim": f"data-{each['name']}-{of}-{number}",
                    "directoryId": _id(random),
                }
                for each in seen
            ],
        },
        "status": {
            "state": "Degraded" if bad else "Running",
            "message": f"Without {', '.join(bad)}." if bad else "In sync.",
            "disks": seen,
            "disksSummary": f"{disks - len(bad)}/{disks}",
            "observed": {"node": node, "disks": [_observed(random, each) for each in seen]},
        },
    }


def _disk(random: Random, number: int, index: int, node: str, state: str) -> dict[str, Any]:
    capacity = 8 * TIB
    share = min(0.93, max(0.2, random.gauss(0.55, 0.11)))
    used = int(capacity * (0.02 if state in ("Evacuated", "Backfilling") else share))
    reason, message = _REASONS.get(state, ("DiskActive", "Kafka uses it."))
    level = "Normal" if state == "Evacuated" else _level(used / capacity)
    return {
        "name": names.disk_name(index),
        "logDir": names.log_dir(names.disk_name(index)),
        "state": state,
        "reason": reason,
        "message": message,
        "since": stamp(-60 * (number % 50 + 5)),
        "directoryId": _id(random),
        "pv": f"{node}-disk{index}",
        "node": node,
        "device": f"/dev/sd{'bcdefghijklmnopqrstuvwxyz'[index]}",
        "path": f"/mnt/disks/disk{index}",
        "capacityBytes": capacity,
        "usedBytes": used,
        "replicas": 0 if state == "Evacuated" else round(300 * share),
        "usage": {
            "level": level,
            "since": stamp(-_DAY),
            "reason": "UsedPercent" if level != "Normal" else "Room",
            "message": f"{100 * used // capacity} % of the disk are used.",
            "usedPercent": 100 * used // capacity,
        },
    }


def _observed(random: Random, disk: dict[str, Any]) -> dict[str, Any]:
    failed = disk["state"] in ("Failed", "Evacuating")
    rate = int(random.uniform(-0.1, 1.0) * disk["capacityBytes"] * 0.1 / (7 * _DAY))
    times = {}
    left = 0.8 * disk["capacityBytes"] - disk["usedBytes"]
    if rate > 0 and 0 < left / rate < 30 * _DAY:
        times["moveAt"] = {
            "at": stamp(left / rate),
            "low": stamp(0.8 * left / rate),
            "high": stamp(1.3 * left / rate),
        }
    forecast = {"forecast": {"bytesPerSecond": rate, **times}} if disk["state"] == "Active" else {}
    return {
        "name": disk["name"],
        "verdict": "Failed" if failed else "Healthy",
        "reason": "ProbeError" if failed else "Healthy",
        "message": "Input/output error while writing." if failed else "Probes answer in time.",
        "since": disk["since"],
        "content": "ours",
        "device": disk["device"],
        "capacityBytes": disk["capacityBytes"],
        "usedBytes": disk["usedBytes"],
        "latencyMs": 8,
        **forecast,
    }


def _level(share: float) -> str:
    return next(
        (level for least, level in ((0.85, "Cordon"), (0.8, "Move"), (0.7, "Warn")) if share >= least),
        "Normal",
    )


def _id(random: Random) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(random.choice(alphabet) for _ in range(22))


def brokers(of: str, count: int, disks: int, racks: int = 3) -> Iterator[dict[str, Any]]:
    """Brokers of which a few have a remarkable disk."""
    states: dict[int, dict[int, str]] = {
        1: {2: "Evacuating"},
        4: {0: "Backfilling"},
        5: {1: "Cordoned"},
        8: {3: "Evacuated"},
        10: {1: "Draining"},
    }
    for number in range(count):
        found = states.get(number, {})
        yield broker(
            of, number, disks, racks, {index: state for index, state in found.items() if index < disks}
        )


def proposal(of: str, moves: int = 24) -> dict[str, Any]:
    """A KafkaRebalance that nobody has approved yet."""
    made = [
        {
            "topic": "orders",
            "partition": index,
            "fromBroker": index % 9,
            "fromDir": names.log_dir("disk0"),
            "toBroker": (index + 3) % 9,
            "toDir": names.log_dir("disk1"),
            "bytes": 40 << 30,
            "reason": "over its band",
        }
        for index in range(moves)
    ]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaRebalance",
        "metadata": {"name": f"{of}-7f3a"},
        "spec": {
            "cluster": of,
            "inputHash": "9f86d081884c7d65",
            "expires": stamp(5 * 3600),
            "moves": made,
            "estimatedMinutes": 95,
            "cost": {"bytesInter": moves * (40 << 30), "bytesIntra": 0, "moves": moves},
            "gain": {
                "fullestPercentBefore": 86,
                "fullestPercentAfter": 64,
                "disksOutOfBandBefore": 17,
                "disksOutOfBandAfter": 0,
            },
        },
        "status": {"phase": "Proposed", "message": "It waits for an approval."},
    }


def journal(of: str, moves: int = 4, ago: float = 60.0, copied: int = 11 << 30) -> dict[str, Any]:
    """The ConfigMap with the moves in progress."""
    made = tuple(
        Move(
            "orders",
            40 + index,
            1,
            names.log_dir("disk2"),
            4 + 3 * index,
            names.log_dir("disk1"),
            40 << 30,
            "evacuate",
        )
        for index in range(moves)
    )
    since = datetime.now(UTC).timestamp() - ago
    pace = tuple(
        CopyProgress("orders", move.partition, move.target, copied, since) for move in made[: moves // 2]
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.moves_map(of)},
        "data": {"journal": render(Journal(moves=made, pace=pace))},
    }


def event(
    obj: dict[str, Any], reason: str, message: str, ago: float, *, warning: bool = False
) -> dict[str, Any]:
    """A Kubernetes event about an object."""
    meta = obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta['name']}."},
        "involvedObject": {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "name": meta["name"],
            "namespace": meta.get("namespace", "default"),
            "uid": meta.get("uid", ""),
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": stamp(-ago),
        "lastTimestamp": stamp(-ago),
        "count": 1,
        "source": {"component": names.FIELD_MANAGER},
    }

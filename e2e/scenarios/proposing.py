"""Proposals that scenarios write themselves, without the job; the operator treats them like any other."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Load, Replica, Topic
from e2e.scenarios.moving import OURS
from e2e.scenarios.stand import Kind
from spindle.api import names

OVER: Final = ("Done", "Stopped", "Expired", "Superseded", "Failed")
# Four brokers on three racks: two of them are interchangeable. Slow, so that a scenario can intervene.
FOUR: Final = Kind(4, policy={"moveBytesPerSecond": 2_000_000, "moveBytesPerSecondMin": 1_000_000})


def mates(lab: Lab) -> tuple[int, int]:
    """Two brokers of one rack."""
    racks: dict[str, list[int]] = {}
    for broker in lab.list("kafkabrokers"):
        racks.setdefault(broker["spec"]["rack"], []).append(broker["spec"]["id"])
    one, other = next(sorted(brokers) for brokers in racks.values() if len(brokers) > 1)
    return one, other


def replicas_of(running: Load, *topics: Topic) -> list[Replica]:
    """Location of replicas, also of topics that the load does not write to."""
    found = Load(running.lab, running.pod, topics).placement()
    return sorted(found, key=lambda replica: (replica.topic, replica.partition, replica.broker))


def move(replica: Replica, broker: int, disk: str) -> dict[str, Any]:
    """A move of a replica from its present location."""
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "fromBroker": replica.broker,
        "fromDir": names.log_dir(replica.disk),
        "toBroker": broker,
        "toDir": names.log_dir(disk),
        "bytes": replica.bytes,
        "reason": "requested by a scenario",
    }


def swapped(replica: Replica) -> dict[str, Any]:
    """A move of a replica to the other disk of its broker."""
    return move(replica, replica.broker, "disk1" if replica.disk == "disk0" else "disk0")


def propose(lab: Lab, name: str, moves: Sequence[Mapping[str, Any]], seconds: float = 3600) -> str:
    """Create a proposal that is valid for this long; returns its hash."""
    made = hashlib.sha256(name.encode()).hexdigest()[:16]
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    lab.apply(
        {
            "apiVersion": names.API_VERSION,
            "kind": "KafkaRebalance",
            "metadata": {"name": name, "namespace": lab.namespace},
            "spec": {
                "cluster": CLUSTER,
                "inputHash": made,
                "expires": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "moves": list(moves),
            },
        }
    )
    return made


def approve(lab: Lab, name: str) -> None:
    """Approve one as a user does."""
    lab.spindle("rebalance", "approve", name, "-n", lab.namespace)


def status(lab: Lab, name: str) -> dict[str, Any]:
    """Status of a proposal; empty before the operator has written it."""
    return dict(lab.the("kafkarebalance", name).get("status") or {})


def until_phase(lab: Lab, name: str, *phases: str, seconds: float = 90) -> dict[str, Any]:
    """Wait until a proposal is in one of these phases; returns its status, which is also printed."""

    def reached() -> bool:
        now = status(lab, name).get("phase")
        assert now in phases or now not in OVER, f"{name}: {status(lab, name)}"
        return now in phases

    took = lab.until(f"{name} is {' or '.join(phases)}", reached, seconds)
    found = status(lab, name)
    told = f"{found.get('outcomes')} {found.get('reason')}: {found.get('message')}"
    print(f"{name} was {found['phase']} after {took:.0f} s: {told}")
    for drop in found.get("dropped", ()):
        print(f"  left out: {drop['reason']}: {drop.get('message')}")
    return found


def until_held(lab: Lab, name: str, reason: str, seconds: float = 60) -> dict[str, Any]:
    """Wait until an approved one reports what holds it back; the first pass after the approval only reports the approval. Returns its status."""
    lab.until(f"{name} waits: {reason}", lambda: status(lab, name).get("reason") == reason, seconds)
    found = status(lab, name)
    print(f"{name} waits: {found.get('message')}")
    return found


def until_moving(lab: Lab, name: str, seconds: float = 90) -> None:
    """Wait until some of its moves are in progress."""
    lab.until(f"{name} has moves in progress", lambda: ">" in status(lab, name).get("outcomes", ""), seconds)


def throttles(running: Load) -> list[str]:
    """Settings of brokers and topics that remain from moves."""
    found = {**running.broker_settings(), **running.configs()}
    return [
        f"{name}: {key}" for name, values in found.items() for key in values if any(w in key for w in OURS)
    ]


def assert_landed(running: Load, moves: Sequence[Mapping[str, Any]]) -> None:
    """Each of these replicas is on its target, and not on its source."""
    stand = {(r.topic, r.partition, r.broker, names.log_dir(r.disk)) for r in running.placement()}
    for each in moves:
        key = (each["topic"], each["partition"])
        assert (*key, each["toBroker"], each["toDir"]) in stand, each
        assert (*key, each["fromBroker"], each["fromDir"]) not in stand, each

"""KafkaRebalances for the unit tests."""

from typing import Any

from spindle.api import names
from spindle.moves.journal import Move

D0, D1 = names.log_dir("disk0"), names.log_dir("disk1")
HASH = "0123456789abcdef"


def move(
    partition: int, source: tuple[int, str], target: tuple[int, str], *, size: int = 100, **more: Any
) -> dict[str, Any]:
    return {
        "topic": "t",
        "partition": partition,
        "fromBroker": source[0],
        "fromDir": source[1],
        "toBroker": target[0],
        "toDir": target[1],
        "bytes": size,
        **more,
    }


def rebalance(
    *moves: dict[str, Any],
    name: str = "demo-1",
    made: str = "2026-09-01T00:00:00Z",
    expires: str = "2027-01-01T00:00:00Z",
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaRebalance",
        "metadata": {
            "name": name,
            "namespace": "kafka",
            "uid": f"uid-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": made,
            "ownerReferences": [{"kind": "KafkaCluster", "name": "demo", "uid": "uid-demo"}],
        },
        "spec": {"cluster": "demo", "inputHash": HASH, "expires": expires, "moves": list(moves), **spec},
        "status": status or {},
    }


def executing(*moves: dict[str, Any], outcomes: str = "", by: str = "person", **more: Any) -> dict[str, Any]:
    """One that is being carried out."""
    status = {
        "phase": "Executing",
        "approvedBy": by,
        "startedAt": "2026-09-01T00:00:00Z",
        "progressedAt": "2026-09-21T14:13:00Z",
        "outcomes": outcomes or "." * len(moves),
    }
    more.setdefault("approved", HASH)
    return rebalance(*moves, status=status, **more)


def in_journal(planned: dict[str, Any], **more: Any) -> Move:
    """A proposal's move as the executor's journal has it."""
    return Move(
        topic="t",
        partition=planned["partition"],
        source=planned["fromBroker"],
        from_dir=planned["fromDir"],
        target=planned["toBroker"],
        to_dir=planned["toDir"],
        bytes=planned["bytes"],
        reason="rebalance",
        **more,
    )

"""Moves between the disks of a broker in scenarios: a disk is drained, and used again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from e2e.scenarios.disk_slot import Slot, assert_used, slots
from e2e.scenarios.load import Load
from e2e.scenarios.stand import until_well
from e2e.scenarios.timeline import Timeline

# Dynamic settings of brokers that Spindle sets during moves.
OURS: Final = ("throttled", "io.max.bytes", "cordoned")


def observed(slot: Slot) -> dict[str, Any]:
    """The agent's report on a disk's broker."""
    return dict((slot.lab.the("kafkabroker", slot.owner).get("status") or {}).get("observed") or {})


def moves(slot: Slot, state: str = "") -> list[dict[str, Any]]:
    """The moves off a disk, as the agent reports them; only those in one state if it is given."""
    return [
        move
        for move in observed(slot).get("moves", ())
        if Path(move["fromDir"]).parent.name == slot.disk and state in ("", move["state"])
    ]


def throttle(slot: Slot) -> int:
    """The throttle that the agent requests for the disk's broker; 0 for none."""
    return int((observed(slot).get("throttle") or {}).get("wantedBytesPerSecond", 0))


def request_drain(timeline: Timeline, slot: Slot) -> float:
    """Request to drain a disk; returns the time of the request."""
    at = timeline.mark(f"{slot.subject} is to be drained")
    slot.ask_for("Drained")
    return at


def drain(timeline: Timeline, slot: Slot) -> float:
    """Request to drain a disk, and wait until the first copy has grown; returns the time of the request."""
    at = request_drain(timeline, slot)
    slot.lab.until(
        "the first copy has grown", lambda: [m for m in moves(slot, "Copying") if m.get("copied")], 120
    )
    timeline.mark("the first copy has grown")
    return at


def target(slot: Slot, move: dict[str, Any]) -> Slot:
    """The target disk of a move."""
    return slots(slot.lab)[slot.broker, Path(move["toDir"]).parent.name]


def until_drained(timeline: Timeline, since: float, *chosen: Slot, seconds: float = 600) -> None:
    """Wait until the disks are empty and removed from their brokers."""
    for slot in chosen:
        timeline.until("disk", "^Drained", slot.subject, since=since, seconds=seconds)


def use_again(timeline: Timeline, *chosen: Slot) -> None:
    """Withdraw the request, and wait until all is well and the disks are backfilled."""
    for slot in chosen:
        slot.withdraw()
    until_well(chosen[0].lab, 600)
    assert_used(*chosen)
    timeline.mark("all disks are used again")


def assert_nothing_left(load: Load) -> None:
    """No throttle, no cordon, no copy remains; to be called before the load ends."""
    lab = load.lab
    lab.until("no throttle and no cordon is left", lambda: not _left(load.broker_settings()), 60)
    assert not [replica for replica, future in load.logs()[1] if future]
    for broker in lab.list("kafkabrokers"):
        assert not broker["spec"].get("moves")
        assert "throttle" not in ((broker.get("status") or {}).get("observed") or {})


def _left(settings: dict[str, dict[str, str]]) -> list[str]:
    return [
        f"{broker}: {key}" for broker, values in settings.items() for key in values if _is_ours(key, OURS)
    ]


def _is_ours(key: str, words: Iterable[str]) -> bool:
    return any(word in key for word in words)

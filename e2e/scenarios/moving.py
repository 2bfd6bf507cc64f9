"""Moves between the disks of a broker, as scenarios bring them about and look at them: a disk is drained, and used again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from e2e.scenarios.disk_slot import Slot, assert_used, slots
from e2e.scenarios.load import Load
from e2e.scenarios.stand import until_well
from e2e.scenarios.timeline import Timeline

# Dynamic settings of brokers that are ours while something moves.
OURS: Final = ("throttled", "io.max.bytes", "cordoned")


def observed(slot: Slot) -> dict[str, Any]:
    """What the agent says of a disk's broker."""
    return dict((slot.lab.the("kafkabroker", slot.owner).get("status") or {}).get("observed") or {})


def moves(slot: Slot, state: str = "") -> list[dict[str, Any]]:
    """The moves that leave a disk, as the agent tells them; those of one state if one is named."""
    return [
        move
        for move in observed(slot).get("moves", ())
        if Path(move["fromDir"]).parent.name == slot.disk and state in ("", move["state"])
    ]


def throttle(slot: Slot) -> int:
    """What the agent wants the throttle of the disk's broker to be; 0 for none."""
    return int((observed(slot).get("throttle") or {}).get("wantedBytesPerSecond", 0))


def drain(timeline: Timeline, slot: Slot) -> float:
    """Wish a disk empty, and wait until the first copy has grown; returns when it was wished."""
    at = timeline.mark(f"{slot.subject} is to be drained")
    slot.ask_for("Drained")
    slot.lab.until(
        "the first copy has grown", lambda: [m for m in moves(slot, "Copying") if m.get("copied")], 120
    )
    timeline.mark("the first copy has grown")
    return at


def target(slot: Slot, move: dict[str, Any]) -> Slot:
    """The disk that a move goes to."""
    return slots(slot.lab)[slot.broker, Path(move["toDir"]).parent.name]


def until_drained(timeline: Timeline, since: float, *chosen: Slot, seconds: float = 600) -> None:
    """Wait until nothing stands on disks any more and they have left their brokers."""
    for slot in chosen:
        timeline.until("disk", "^Drained", slot.subject, since=since, seconds=seconds)


def use_again(timeline: Timeline, *chosen: Slot) -> None:
    """Withdraw what was asked for, and wait until all is well and they are filled."""
    for slot in chosen:
        slot.withdraw()
    until_well(chosen[0].lab, 600)
    assert_used(*chosen)
    timeline.mark("all disks are used again")


def assert_nothing_left(load: Load) -> None:
    """No throttle, no cordon, no copy; to be asked before the load ends."""
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

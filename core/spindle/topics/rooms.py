"""The brokers and log dirs that accept replicas of new topics now, as one pass sees them."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from spindle.disks.disk_inventory import DiskInventory
from spindle.model import objects
from spindle.model.view import Broker, LogDir
from spindle.moves.journal import Journal
from spindle.moves.requests import MoveRequests
from spindle.topics.placement import BrokerRoom, DirRoom, Rooms

HORIZON: Final = 7 * 86_400  # seconds of growth that count as used
_LEAST: Final = 1e-4  # share of the smallest dir that a new replica counts as at least: in an empty cluster, nothing else spreads replicas over dirs


def rooms_of(inventory: DiskInventory, requests: MoveRequests, journal: Journal) -> Rooms:
    """What accepts replicas: running brokers that stay, with their log dirs that are well, open, and not too full."""
    state = inventory.state
    view = inventory.view
    shut = {*requests.closed, *requests.bad}
    coming: Counter[tuple[int, str]] = Counter()
    for move in journal.moves:
        coming[move.target, move.to_dir] += move.bytes
    growth, size = _growth(inventory), _usual_size(view.brokers or {})
    index = view.partition_index
    leaders = Counter(partition.replicas[0] for partition in view.partitions or () if partition.replicas)
    brokers = {}
    for broker in (view.brokers or {}).values():
        record = state.brokers.get(broker.id)
        if broker.fenced is not False or record is None or objects.kept_down(record):
            continue
        dirs = [
            _room(broker, log_dir, growth, coming, inventory.ceiling(broker.id, log_dir.path), size)
            for log_dir in broker.log_dirs or ()
            if _open(broker, log_dir, shut)
        ]
        if dirs:
            replicas = len(index.assigned.get(broker.id, ()))
            brokers[broker.id] = BrokerRoom(broker.id, broker.rack, dirs, replicas, leaders[broker.id])
    for room in brokers.values():
        room.dirs = [each for each in room.dirs if each.takes(size)]
    return Rooms({i: room for i, room in brokers.items() if room.dirs}, size)


def _open(broker: Broker, log_dir: LogDir, shut: Collection[tuple[int, str]]) -> bool:
    return (
        not log_dir.error
        and not log_dir.cordoned
        and bool(log_dir.total_bytes)
        and log_dir.usable_bytes is not None
        and (broker.id, log_dir.path) not in shut
    )


def _room(
    broker: Broker,
    log_dir: LogDir,
    growth: Mapping[tuple[int, str], float],
    coming: Mapping[tuple[int, str], int],
    limit: float,
    size: float,
) -> DirRoom:
    key, total = (broker.id, log_dir.path), float(log_dir.total_bytes or 0)
    used = total - (log_dir.usable_bytes or 0) + coming.get(key, 0)
    # A dir that would fill up is the last choice, and not closed for that: what the forecast says is not there yet.
    grown = max(used, min(limit * total - size, used + growth.get(key, 0.0)))
    return DirRoom(log_dir.path, grown, total, limit, len(log_dir.replicas))


def _growth(inventory: DiskInventory) -> dict[tuple[int, str], float]:
    """(broker, path) → bytes by which an agent expects a disk to grow within the horizon."""
    found = {}
    for slot in inventory.slots:
        rate = (slot.observed.get("forecast") or {}).get("bytesPerSecond")
        if slot.watched and rate:
            found[slot.broker, slot.path] = max(0.0, float(rate) * HORIZON)
    return found


def _usual_size(brokers: Mapping[int, Broker]) -> float:
    """Average bytes of a replica, or a small share of a dir."""
    dirs = [log_dir for broker in brokers.values() for log_dir in broker.log_dirs or ()]
    least = _LEAST * min((d.total_bytes for d in dirs if d.total_bytes), default=0)
    count = sum(len(log_dir.replicas) for log_dir in dirs)
    return max(1.0, least, sum(sum(d.replicas.values()) for d in dirs) / count if count else 0.0)

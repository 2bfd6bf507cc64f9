"""Which broker and log dir gets one more replica of a partition, and which replica leaves a partition that has too many.

An added replica goes to a rack with the fewest replicas of the partition; of its brokers, to the one with the fewest of the topic, and then to the one with
the fewest replicas and the least used space of all topics. Only one that copes with the partition's size is a candidate.

A replica that leaves is never the only one of its rack while another rack has two. Of the others it is one that is out of sync, else one on a disk or a broker that
has to be emptied, else one of the most crowded rack, else not the preferred leader, else the one on the broker with the most of the topic, else on the fullest disk.
"""

from collections import Counter
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from spindle.topics.placement import BrokerRoom, Burden, DirRoom, Rooms, emptiest


@dataclass(frozen=True)
class HeldReplica:
    """A replica that may leave.

    Attributes:
        rack: of its broker; empty without racks.
        in_sync: whether it is in the ISR, on a live dir.
        unwanted: whether its disk or its broker has to be emptied, so that it would be moved otherwise.
        of_topic: number of replicas of the topic on its broker.
        fullness: used share of its disk.
    """

    broker: int
    rack: str
    in_sync: bool = True
    unwanted: bool = False
    of_topic: int = 0
    fullness: float = 0.0


class Grower:
    """Chooses targets, one after the other, and counts them."""

    def __init__(self, rooms: Rooms, racks: Mapping[int, str]) -> None:
        """Prepare.

        Args:
            rooms: what accepts replicas.
            racks: of all brokers that stay, whether they accept replicas now or not.
        """
        self._rooms, self._racks = rooms, racks
        self._burden = Burden(rooms)

    def choose(
        self,
        replicas: Collection[int],
        size: float,
        topic: MutableMapping[int, int],
        dirs: MutableMapping[tuple[int, str], int],
    ) -> tuple[int, str] | None:
        """The broker and path for one more replica; None if none accepts it.

        A rack without a replica is not passed over because it has no room now: the partition would have to be moved afterwards.

        Args:
            replicas: brokers of the partition's replicas.
            size: of the partition, in bytes.
            topic: broker → replicas of the topic; the new one is added.
            dirs: (broker, path) → replicas of the topic; the new one is added.
        """
        in_rack = Counter(self._racks[broker] for broker in replicas if broker in self._racks)
        free = [broker for broker in self._racks if broker not in replicas]
        empty = {self._racks[broker] for broker in free} - in_rack.keys()
        able = [
            (broker, room, open_dirs)
            for broker in free
            if (room := self._rooms.brokers.get(broker)) is not None
            and (not empty or self._racks[broker] in empty)
            and (open_dirs := [each for each in room.dirs if each.takes(size)])
        ]
        if not able:
            return None
        broker, room, open_dirs = min(
            able,
            key=lambda each: (
                in_rack[self._racks[each[0]]],
                topic.get(each[0], 0),
                self._burden.of(each[0]),
                each[0],
            ),
        )
        return broker, self._take(room, emptiest(open_dirs, broker, size, dirs), size, topic, dirs)

    def _take(
        self,
        room: BrokerRoom,
        chosen: DirRoom,
        size: float,
        topic: MutableMapping[int, int],
        dirs: MutableMapping[tuple[int, str], int],
    ) -> str:
        chosen.used += size
        chosen.replicas += 1
        room.replicas += 1
        self._burden.add(room.id)
        topic[room.id] = topic.get(room.id, 0) + 1
        dirs[room.id, chosen.path] = dirs.get((room.id, chosen.path), 0) + 1
        return chosen.path


def choose_leaver(replicas: Sequence[HeldReplica]) -> int:
    """The broker whose replica hurts least when it leaves.

    Args:
        replicas: all of the partition, the preferred leader first; not empty.
    """
    in_rack = Counter(each.rack for each in replicas)
    shared = [each for each in replicas if in_rack[each.rack] > 1]
    return min(
        shared or replicas,
        key=lambda each: (
            each.in_sync,
            not each.unwanted,
            -in_rack[each.rack],
            each is replicas[0],
            -each.of_topic,
            -each.fullness,
            -each.broker,
        ),
    ).broker

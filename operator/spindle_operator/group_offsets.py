"""Requests to Kafka about consumer groups: their committed offsets, and the ends of partitions. All functions block, and raise KafkaError, OSError or RuntimeError."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from spindle.metrics.consumer_lag import MAX_SERIES, GroupOffsets, Key, matching
from spindle_operator.answers import expect
from spindle_operator.connection import Budget, Connection, TooMuchError
from spindle_operator.list_offsets import LATEST, list_offsets

# Limits of one reading: its duration in timeouts, first for the offsets of the groups, then for the ends; responses (each at most 1 MB); offsets that are decoded.
_GROUPS: Final = 3
_ENDS: Final = 1
_ANSWERS: Final = 1500
_MOST_OFFSETS: Final = 5 * MAX_SERIES
_GROUPS_AT_ONCE: Final = 500
_GROUPS_PER_CALL: Final = 10  # more might not fit in a response of 1 MB
_PARTITIONS_PER_CALL: Final = 5000
# Groups with these types of members commit offsets of topics: consumers of both protocols, Kafka Streams, and groups without members. Connect's workers do not, nor do share groups.
_TYPES: Final = frozenset({"consumer", "streams", ""})
_SHARE: Final = "share"
_GROUP_ID_NOT_FOUND: Final = 69


def read(
    link: Connection, patterns: Sequence[str], leaders: Mapping[Key, int | None], most: int = MAX_SERIES
) -> tuple[GroupOffsets, dict[Key, int]]:
    """The committed offsets of groups, then the ends of their partitions.

    Args:
        link: the connection.
        patterns: the groups, as `spindle.metrics.consumer_lag.matching` takes them.
        leaders: the leader of each partition; offsets of other partitions are ignored.
        most: series at most.
    """
    seconds = link.timeout_ms / 1000
    offsets = GroupOffsets(most)
    try:
        link.budget = Budget(_GROUPS * seconds, _ANSWERS + 2 * len(link.hosts))
        coordinators = _groups(link)
        names = matching(coordinators, patterns)
        decoded = 0
        for start in range(0, len(names), _GROUPS_AT_ONCE):
            if offsets.full or decoded >= _MOST_OFFSETS:
                offsets.left_out += len(names) - start
                break
            try:
                decoded += _fetch(
                    link, names[start : start + _GROUPS_AT_ONCE], coordinators, leaders, offsets
                )
            except TooMuchError:
                offsets.unread += len(names) - start
                break
        link.budget = Budget(_ENDS * seconds, _ANSWERS + 2 * len(link.hosts))
        return offsets, _ends(link, offsets.partitions, leaders)
    finally:
        link.budget = None


def _groups(link: Connection) -> dict[str, int]:
    """Group → its coordinator: each broker lists the groups that it coordinates."""

    def ask(node: int) -> list[str] | None:
        return link.attempt(lambda: _listed(link, node), f"broker {node}")

    nodes = list(link.hosts)
    found = zip(nodes, link.side_by_side(ask, nodes), strict=True)
    return {group: node for node, groups in found for group in groups or ()}


def _listed(link: Connection, node: int) -> list[str]:
    answer = link.send(ListGroupsRequest(states_filter=[], types_filter=[]), node)
    expect(answer.error_code, "ListGroups")
    return [
        group.group_id
        for group in answer.groups
        if group.protocol_type in _TYPES and (getattr(group, "group_type", "") or "").lower() != _SHARE
    ]


def _fetch(
    link: Connection,
    page: Sequence[str],
    coordinators: Mapping[str, int],
    leaders: Mapping[Key, int | None],
    offsets: GroupOffsets,
) -> int:
    """Add the offsets of some groups, in the order of their names.

    Returns:
        How many offsets were read.
    """
    calls = list(_calls(page, coordinators))
    answers = link.side_by_side(lambda i: _offsets(link, *calls[i], leaders), range(len(calls)))
    found = {group: told for answer in answers for group, told in answer.items()}
    for group in page:
        if group not in found:
            offsets.unread += 1
        elif (told := found[group]) is not None:
            offsets.add(group, told)
    return sum(len(told or ()) for told in found.values())


def _calls(page: Sequence[str], coordinators: Mapping[str, int]) -> Iterator[tuple[int, list[str]]]:
    """Coordinator and groups of each request."""
    by_node: dict[int, list[str]] = defaultdict(list)
    for group in page:
        by_node[coordinators[group]].append(group)
    for node, groups in by_node.items():
        for start in range(0, len(groups), _GROUPS_PER_CALL):
            yield node, groups[start : start + _GROUPS_PER_CALL]


def _offsets(
    link: Connection, node: int, groups: Sequence[str], leaders: Mapping[Key, int | None]
) -> dict[str, Mapping[Key, int] | None]:
    """Group → its offsets: None if it is gone; a group that could not be read is missing."""
    wanted = [
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group, member_id=None, member_epoch=-1, topics=None
        )
        for group in groups
    ]
    # Version 10 has ids in place of the names of topics.
    request = OffsetFetchRequest(groups=wanted, require_stable=False, min_version=8, max_version=9)
    answer = link.attempt(lambda: link.send(request, node), f"broker {node}")
    if answer is None:
        return {}
    return {
        group.group_id: None if group.error_code else _committed(group, leaders)
        for group in answer.groups
        if group.error_code in {0, _GROUP_ID_NOT_FOUND}
    }


def _committed(group: Any, leaders: Mapping[Key, int | None]) -> dict[Key, int]:
    return {
        key: partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
        if not partition.error_code
        and partition.committed_offset >= 0
        and (key := (topic.name, partition.partition_index)) in leaders
    }


def _ends(link: Connection, partitions: Collection[Key], leaders: Mapping[Key, int | None]) -> dict[Key, int]:
    """The offset after the last replicated record of each partition; those that could not be read are missing."""
    by_leader: dict[int, list[Key]] = defaultdict(list)
    for key in sorted(partitions):
        if (leader := leaders[key]) is not None and leader in link.hosts:
            by_leader[leader].append(key)
    calls = [
        (node, keys[start : start + _PARTITIONS_PER_CALL])
        for node, keys in by_leader.items()
        for start in range(0, len(keys), _PARTITIONS_PER_CALL)
    ]
    found: dict[Key, int] = {}
    for told in link.side_by_side(lambda i: _latest(link, *calls[i]), range(len(calls))):
        found |= told
    return found


def _latest(link: Connection, node: int, keys: Sequence[Key]) -> dict[Key, int]:
    found = link.attempt(lambda: list_offsets(link, node, keys, LATEST, link.timeout_ms), f"broker {node}")
    return {key: partition.offset for key, partition in (found or {}).items() if partition.offset >= 0}

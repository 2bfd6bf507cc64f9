"""The effects of a KafkaTopic before it is applied."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api.cluster import KafkaClusterSpec
from spindle.config.preview import RUNNING, PreviewChange
from spindle.topics.wanted import WantedTopic, defaults, settings_problems, wanted

_KEYS: Final = "on chosen brokers and disks; from then on, keys map to other partitions"
_GROWS: Final = "refused: partitions can only grow"
_REPLICAS: Final = "refused: Spindle does not change the number of replicas of an existing topic"
_DELETE: Final = "the topic and its records are deleted when the KafkaTopic is deleted"
_RETAIN: Final = "the topic stays when the KafkaTopic is deleted"


def preview_topic(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, cluster: KafkaClusterSpec
) -> tuple[tuple[str, ...], list[PreviewChange]]:
    """What applying a KafkaTopic does.

    Args:
        new: the object in the file.
        old: the object in Kubernetes, with its status; None if there is none.
        cluster: spec of its KafkaCluster.

    Returns:
        why it would be refused, and the changes; no changes if it would be.
    """
    want = wanted(new, cluster.version)
    if want.problems:
        return want.problems, []
    status = (old or {}).get("status") or {}
    brokers = sum(pool.replicas for pool in cluster.broker_pools)
    partitions, replicas = defaults(cluster.config, brokers)
    factor = int(status.get("replicas") or want.spec.replicas or replicas)
    found = settings_problems(want.spec.config, cluster.version, factor)
    if found:
        return tuple(f"{each.message}. To resolve: {each.way_out}." for each in found), []
    if not status.get("topicId"):
        return (), [_creation(want, want.spec.partitions or partitions, want.spec.replicas or replicas)]
    before = (old or {}).get("spec") or {}
    return (), [*_of_counts(want, status), *_of_settings(want, before), *_of_policy(want, before)]


def _creation(want: WantedTopic, partitions: int, replicas: int) -> PreviewChange:
    there = "taken over" if want.spec.adopt else "left alone (NameTaken)"
    return PreviewChange(
        f"topic {want.name}",
        "cluster",
        f"created: partitions: {partitions}, replicas: {replicas}, on chosen brokers and disks; if it exists already: {there}",
    )


def _of_counts(want: WantedTopic, status: Mapping[str, Any]) -> list[PreviewChange]:
    changes, where = [], f"topic {want.name}"
    for what, wish, grow in (
        ("partitions", want.spec.partitions, _KEYS),
        ("replicas", want.spec.replicas, _REPLICAS),
    ):
        now = int(status.get(what) or 0)
        if wish is not None and now and wish != now:
            how = grow if wish > now or what == "replicas" else _GROWS
            changes.append(PreviewChange(f"{what}: {now} to {wish}", where, how))
    return changes


def _of_settings(want: WantedTopic, before: Mapping[str, Any]) -> list[PreviewChange]:
    old, new = before.get("config") or {}, want.spec.config
    return [
        PreviewChange(
            f"{key}: {old.get(key, 'not set')} to {new.get(key, 'the default')}",
            f"topic {want.name}",
            RUNNING,
        )
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _of_policy(want: WantedTopic, before: Mapping[str, Any]) -> list[PreviewChange]:
    old, new = before.get("deletionPolicy", "Retain"), want.spec.deletion_policy
    if old == new:
        return []
    how = _DELETE if new == "Delete" else _RETAIN
    return [PreviewChange(f"deletionPolicy: {old} to {new}", f"topic {want.name}", how)]

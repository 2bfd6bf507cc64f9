"""The effects of a KafkaTopic before it is applied."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api.cluster import KafkaClusterSpec
from spindle.config.preview import RUNNING, PreviewChange
from spindle.model.waiting import counted
from spindle.topics.wanted import (
    MIN_ISR,
    WantedTopic,
    default_min_isr,
    defaults,
    settings_problems,
    wanted,
)

_KEYS: Final = "on chosen brokers and disks; from then on, keys map to other partitions"
_GROWS: Final = "refused: partitions can only grow"
_TOO_FEW: Final = "refused: not below min.insync.replicas"
_REMOVED: Final = "replicas leave when the others are in sync; nothing is copied"
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
    factor = int(want.spec.replicas or status.get("replicas") or replicas)
    found = settings_problems(want.spec.config, cluster.version, factor)
    if found:
        return tuple(f"{each.message}. To resolve: {each.way_out}." for each in found), []
    if not status.get("topicId"):
        return (), [_creation(want, want.spec.partitions or partitions, want.spec.replicas or replicas)]
    before = (old or {}).get("spec") or {}
    return (), [
        *_of_partitions(want, status),
        *_of_replicas(want, status, cluster, brokers),
        *_of_settings(want, before),
        *_of_policy(want, before),
    ]


def _creation(want: WantedTopic, partitions: int, replicas: int) -> PreviewChange:
    there = "taken over" if want.spec.adopt else "left alone (NameTaken)"
    return PreviewChange(
        f"topic {want.name}",
        "cluster",
        f"created: partitions: {partitions}, replicas: {replicas}, on chosen brokers and disks; if it exists already: {there}",
    )


def _of_partitions(want: WantedTopic, status: Mapping[str, Any]) -> list[PreviewChange]:
    wish, now = want.spec.partitions, int(status.get("partitions") or 0)
    if wish is None or not now or wish == now:
        return []
    return [
        PreviewChange(f"partitions: {now} to {wish}", f"topic {want.name}", _KEYS if wish > now else _GROWS)
    ]


def _of_replicas(
    want: WantedTopic, status: Mapping[str, Any], cluster: KafkaClusterSpec, brokers: int
) -> list[PreviewChange]:
    """What another replication factor copies or removes; whether each disk has room is known only when it is applied."""
    wish, now = want.spec.replicas, int(status.get("replicas") or 0)
    if wish is None or not now or wish == now:
        return []
    least = want.spec.config.get(MIN_ISR, default_min_isr(cluster.config, brokers))
    size = abs(wish - now) * int(status.get("bytes") or 0) // now
    if wish > brokers:
        how = f"waits: the cluster has {counted(brokers, 'broker')}"
    elif wish > now:
        how = f"about {size / 1e9:.1f} GB are copied to chosen brokers and disks, throttled, with the topic in use"
    elif wish < int(least):
        how = _TOO_FEW
    else:
        how = f"{_REMOVED}; about {size / 1e9:.1f} GB become free"
    return [PreviewChange(f"replicas: {now} to {wish}", f"topic {want.name}", how)]


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

"""Which of the user's settings a running broker accepts, and which requests apply them.

The list is `DynamicBrokerConfig.dynamicConfigUpdateModes` of Kafka 4.4.0 without the settings that Spindle owns (throttles, cordons, TLS). A test
compares it with a real broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.model.config_values import ConfigValues

# Set on each broker, because pools may differ; a broker's own value overrides the cluster-wide default.
ON_BROKERS: Final = frozenset(
    [
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
        "follower.fetch.last.tiered.offset.enable",
        "group.consumer.assignment.interval.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.decompressed.message.bytes",
        "message.max.bytes",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    ]
)
# The controllers use these, too, so they are set as the cluster-wide default. With ELR, Kafka stores the first one only there (KIP-966).
ON_CLUSTER: Final = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
UNCLEAN: Final = "unclean.leader.election.enable"
# Only used at the start of a broker: a running broker needs no update.
AT_START: Final = frozenset({"num.recovery.threads.per.data.dir"})

# A broker accepts at most twice and at least half of the current number of threads in one change (DynamicThreadPool.validate).
_THREADS: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)


@dataclass(frozen=True)
class ConfigChanges:
    """Changes to the dynamic settings of one broker.

    Attributes:
        orders: dynamic settings of the broker to set; None deletes one.
        ours: the settings that are Spindle's on it after that, with their final values.
        restart: keys for which it must restart.
        by_hand: key → (the value that another client has set, the value in the spec).
    """

    orders: Mapping[str, str | None] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    restart: tuple[str, ...] = ()
    by_hand: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def config_changes(
    wanted: Mapping[str, str],
    standing: Mapping[str, ConfigValues],
    ours: Mapping[str, str],
    before: Mapping[str, str] | None = None,
) -> ConfigChanges:
    """Compute the requests after which a running broker has the settings of the spec.

    A value that another client has set dynamically is not changed but reported; so is a value that was Spindle's and has changed since. See "every
    changed setting can be restored" (`docs/safety.md`, rule 10).

    Args:
        wanted: the broker's settings from the spec, the whole file.
        standing: current values of `ON_BROKERS`, as the broker reports them; a missing one is not known and not changed.
        ours: the dynamic settings of the broker that Spindle has set, with their values.
        before: Spindle's values before those, which the broker may still have.
    """
    known = {key: [value, *_of(before, key)] for key, value in ours.items()}
    orders: dict[str, str | None] = {}
    kept: dict[str, str] = {}
    by_hand: dict[str, tuple[str, str]] = {}
    restart: list[str] = []
    for key in sorted(ON_BROKERS & standing.keys()):
        now, want = standing[key], wanted.get(key)
        others = _by_others(now, key, known.get(key, []))
        if others is not None:
            if want is not None and others != want:
                by_hand[key] = (others, want)
            continue
        # The broker was started with the key, but the spec no longer has it: only a restart can unset it, because Kafka has no "not
        # set".
        if want is None and now.static is not None:
            restart.append(key)
        if want is None or now.static == want:
            if now.own is not None:
                orders[key] = _back(key, now)
                if orders[key] is not None:
                    kept[key] = ours[key]
            continue
        kept[key] = want
        if now.own != want:
            orders[key] = _towards(key, now.effective, want)
    return ConfigChanges(orders, kept, tuple(restart), by_hand)


def _of(values: Mapping[str, str] | None, key: str) -> list[str]:
    return [values[key]] if values and key in values else []


def _by_others(now: ConfigValues, key: str, ours: Sequence[str]) -> str | None:
    """The value that another client has set dynamically; None for none."""
    if now.own is None:
        return now.shared
    return None if ours and _may_be_ours(key, now.own, ours, now) else now.own


def _may_be_ours(key: str, value: str, ours: Sequence[str], now: ConfigValues) -> bool:
    """Whether Spindle set a dynamic value, or it is a step towards such a value."""
    if value in ours:
        return True
    start = now.shared or now.static or now.default
    if key not in _THREADS or start is None:
        return False
    ends = [start, *ours]
    if not all(text.isdecimal() for text in (value, *ends)):
        return False
    return min(map(int, ends)) <= int(value) <= max(map(int, ends))


def _back(key: str, now: ConfigValues) -> str | None:
    """None to delete a dynamic value; for threads, first one step towards the value that is effective then."""
    then = next((v for v in (now.shared, now.static, now.default) if v is not None), None)
    step = None if then is None else _towards(key, now.own, then)
    return None if step == then else step


def _towards(key: str, now: str | None, want: str) -> str:
    """The value itself, or for threads the value that is one step towards it."""
    if key not in _THREADS or now is None or not (now.isdecimal() and want.isdecimal()) or int(now) < 1:
        return want
    return str(min(max(int(want), int(now) // 2, 1), 2 * int(now)))


def fixed(settings: Mapping[str, str], *, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings for which a node must restart: all except those that it accepts while it runs, or needs only at its start.

    ``own`` are the settings of the node's pool: cluster-wide defaults cannot differ by pool, so those among them require a restart.
    """
    running = ON_BROKERS | AT_START | (ON_CLUSTER - (own or {}).keys())
    return {key: value for key, value in settings.items() if key not in running}

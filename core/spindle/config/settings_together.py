"""Settings that Kafka rejects in combination (KafkaConfig.validateValues, GroupCoordinatorConfig, ShareGroupConfig, LogConfig)."""

from collections.abc import Iterator, Mapping
from typing import Final

from spindle.config.settings import SettingProblem, SettingSpec

_MIB: Final = 2**20


def _groups() -> Iterator[tuple[str, str]]:
    for kind in ("consumer", "share", "streams"):
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            yield from _between(
                f"group.{kind}.min.{what}", f"group.{kind}.{what}", f"group.{kind}.max.{what}"
            )
    yield from _between(
        "group.share.min.record.lock.duration.ms",
        "group.share.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    )
    yield from _between(
        "group.share.min.partition.max.record.locks",
        "group.share.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    )
    yield from _between(
        "group.share.min.delivery.count.limit",
        "group.share.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    )


def _between(least: str, value: str, most: str) -> Iterator[tuple[str, str]]:
    yield from ((least, value), (value, most), (least, most))


# (a, b): a must not be above b.
_NOT_ABOVE: Final = (
    *_groups(),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)


# (a, b): a must be below b.
_BELOW: Final = tuple(
    (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
    for kind in ("consumer", "share", "streams")
)


class _Values:
    """The values at a node's start: from the configuration, otherwise Kafka's defaults."""

    def __init__(self, written: Mapping[str, str], table: Mapping[str, SettingSpec]) -> None:
        self._written = written
        self._table = table

    def __contains__(self, key: object) -> bool:
        return key in self._table

    def first(self, *keys: str) -> str | None:
        """The first of several settings for the same thing that is configured: the one that Kafka uses."""
        return next((key for key in keys if key in self._written), None)

    def text(self, key: str) -> str:
        return self._written.get(key, self._table[key].default or "").strip()

    def number(self, key: str) -> int | None:
        """None if it is not a whole number: a config provider supplies it, or another check rejects it."""
        try:
            return int(self.text(key))
        except ValueError:
            return None


def impossible(
    asked: Mapping[str, str], whole: Mapping[str, str], table: Mapping[str, SettingSpec]
) -> Iterator[SettingProblem]:
    """The invalid combinations in a whole configuration; ``asked`` are the user's settings, each of them valid by itself."""
    values = _Values(whole, table)
    for low, high in (*_NOT_ABOVE, *_BELOW):
        if low in values and high in values and (low in asked or high in asked):
            yield from _ordered(asked, values, low, high)
    for rule in (_idle, _queue, _per_ip, _cleaner, _retention, _local, _flush):
        yield from (problem for problem in rule(asked, values) if problem.key in asked)


def _ordered(asked: Mapping[str, str], values: _Values, low: str, high: str) -> Iterator[SettingProblem]:
    small, large, strictly = values.number(low), values.number(high), (low, high) in _BELOW
    if small is None or large is None or small < large or (small == large and not strictly):
        return
    if strictly:
        yield _clash(
            asked,
            low,
            high,
            f"{low} ({small}) is not below {high} ({large})",
            f"below {large}",
            f"above {small}",
        )
    else:
        yield _clash(
            asked,
            low,
            high,
            f"{low} ({small}) is above {high} ({large})",
            f"to {large} or less",
            f"to {small} or more",
        )


def _clash(asked: Mapping[str, str], low: str, high: str, what: str, less: str, more: str) -> SettingProblem:
    key = low if low in asked else high
    return SettingProblem(
        key, f"{what}, and Kafka does not start with these values", f"set {low} {less}, or {high} {more}"
    )


def _idle(asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    small, large = values.number(delay), values.number(idle)
    if small is not None and large is not None and 0 <= large <= small:
        yield _clash(
            asked,
            delay,
            idle,
            f"{delay} ({small}) is not below {idle} ({large})",
            f"below {large}",
            f"above {small}",
        )


def _queue(asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    request, queue = "socket.request.max.bytes", "queued.max.request.bytes"
    small, large = values.number(request), values.number(queue)
    if small is not None and large is not None and 0 < large < small:
        yield _clash(
            asked,
            request,
            queue,
            f"{queue} ({large}) is below {request} ({small})",
            f"to {large} or less",
            f"to {small} or more, or to -1",
        )


def _per_ip(_asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    key, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if values.number(key) == 0 and not values.text(overrides):
        yield SettingProblem(
            key,
            f"{key} is 0 and {overrides} is empty, so no client could connect",
            f"set {key} to 1 or more, or set {overrides} as well",
        )


def _cleaner(asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    threads, buffer = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    count, size = values.number(threads), values.number(buffer)
    if count is not None and size is not None and count > 0 and size // count <= _MIB:
        key = buffer if buffer in asked else threads
        what = f"{buffer} ({size}) must be more than {_MIB} for each of {count} {threads}"
        yield SettingProblem(
            key,
            f"{what}; otherwise Kafka does not start",
            f"set {buffer} to {count * (_MIB + 1)} or more, or reduce {threads}",
        )


def _retention(_asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    key = values.first("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    if key is not None and values.number(key) == 0:
        yield SettingProblem(
            key,
            f"{key} cannot be 0: Kafka accepts -1 for no limit, or 1 or more",
            f"set {key} to -1, or to 1 or more",
        )


def _local(asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    """With tiered storage, the local retention must not exceed the total retention; -2 stands for the same as the total."""
    if values.text("remote.log.storage.system.enable").lower() != "true":
        return
    times = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    key = values.first(*times) or times[-1]
    count = values.number(key)
    unit = dict(zip(times, (1, 60_000, 3_600_000), strict=True))[key]
    whole = (
        ("log.local.retention.ms", key, count, unit),
        ("log.local.retention.bytes", "log.retention.bytes", values.number("log.retention.bytes"), 1),
    )
    for local, total, most, unit in whole:
        part = values.number(local)
        if part is None or most is None or most < 0 or part < -1 or 0 <= part <= most * unit:
            continue
        what = f"{local} ({part if part >= 0 else 'no limit'}) is above {total} ({most})"
        yield _clash(asked, local, total, what, "to that or less, or to -2 for the same", "to that or more")


def _flush(_asked: Mapping[str, str], values: _Values) -> Iterator[SettingProblem]:
    """Without a flush interval, Kafka uses the interval of its flush scheduler."""
    key = "log.flush.scheduler.interval.ms"
    number = values.number(key)
    if values.first("log.flush.interval.ms", key) == key and number is not None and number < 0:
        yield SettingProblem(
            key, f"{key} cannot be {number}: Kafka accepts 0 or more", f"set {key} to 0 or more"
        )

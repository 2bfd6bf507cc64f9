"""Converts Kafka's responses (kafka-python's messages) to the core's view. Sends no requests."""

import base64
import uuid
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from kafka.errors import for_code

from spindle.model.answers import read_log_dir
from spindle.model.config_values import ConfigValues
from spindle.model.view import PRODUCER_RATE, LogDir, Quorum, Voter

# A voter whose last caught-up fetch is older than this, on the leader's clock, has stopped following: followers fetch
# at least every half second, and the leader itself writes a record as often.
_CAUGHT_UP_MS: Final = 3000
# ConfigSource of DescribeConfigs: DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG (of one broker).
_SET_ON_IT: Final = frozenset({1, 2})
# DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG: in the order of `ConfigValues`.
_SOURCES: Final = (2, 3, 4, 5)
_SHARED: Final = 8192  # characters, at most, of a broker's settings that are kept for other brokers: a false one may send any


def expect(code: int, message: str | None) -> None:
    """Raise the KafkaError of an error code; 0 means none."""
    if code:
        raise for_code(code)(message or "")


def leading_state(answer: Any) -> Any | None:
    """The metadata log's state in a DescribeQuorum response; None if it has an error, or no leader."""
    if answer.error_code or not answer.topics:
        return None
    state = answer.topics[0].partitions[0]
    return None if state.error_code or state.leader_id < 0 else state


def read_quorum(state: Any) -> Quorum:
    """DescribeQuorum's partition state as a Quorum."""
    leader = next((v for v in state.current_voters if v.replica_id == state.leader_id), None)
    now = leader.last_caught_up_timestamp if leader is not None else -1

    def caught_up(voter: Any) -> bool | None:
        if voter.replica_id == state.leader_id:
            return True
        if now < 0:
            return None
        return bool(
            voter.last_caught_up_timestamp >= 0 and now - voter.last_caught_up_timestamp <= _CAUGHT_UP_MS
        )

    def read(replica: Any) -> Voter:
        told = leader is not None and min(leader.log_end_offset, replica.log_end_offset) >= 0
        lag = max(0, leader.log_end_offset - replica.log_end_offset) if leader is not None and told else None
        return Voter(
            replica.replica_id, directory_text(replica.replica_directory_id), caught_up(replica), lag
        )

    return Quorum(
        leader=state.leader_id,
        voters=tuple(read(voter) for voter in state.current_voters),
        observers=tuple(read(observer) for observer in state.observers),
    )


def freshest(state: Any, reachable: Iterable[int]) -> int | None:
    """The reachable broker that follows the metadata log best; None if all lag."""
    now = next(
        (v.last_caught_up_timestamp for v in state.current_voters if v.replica_id == state.leader_id), -1
    )
    candidates = [
        observer
        for observer in state.observers
        if observer.replica_id in set(reachable)
        and (now < 0 or now - observer.last_caught_up_timestamp <= _CAUGHT_UP_MS)
    ]
    if not candidates:
        return None
    return int(
        max(candidates, key=lambda observer: (observer.log_end_offset, -observer.replica_id)).replica_id
    )


def read_log_dirs(answer: Any) -> tuple[LogDir, ...]:
    """Parse a DescribeLogDirs response. A top-level error (for example a missing ACL) raises: it must not look like "no log dirs"."""
    expect(getattr(answer, "error_code", 0) or 0, "DescribeLogDirs")
    return tuple(read_log_dir(result) for result in answer.results)


def read_settings(result: Any, keys: Collection[str]) -> dict[str, str]:
    """Keys of a DescribeConfigs result that are set dynamically on that topic or broker itself.

    For a broker, the set value counts (from the synonyms), not the effective one: a broker that was started with a cordon of a log dir that it does
    not have applies none of its dynamic settings (`KafkaConfig.validateCordonedLogDirs`).
    """
    found = {}
    for config in result.configs:
        if config.name in keys and config.config_source in _SET_ON_IT:
            told = {s.source: s.value for s in config.synonyms or () if s.name == config.name}
            value = told.get(config.config_source, config.value)
            if value:
                found[config.name] = value
    return found


def set_on_it(result: Any) -> dict[str, str]:
    """All keys of a DescribeConfigs result of a topic that are set on the topic itself."""
    return {
        config.name: config.value
        for config in result.configs
        if config.config_source in _SET_ON_IT and config.value is not None
    }


def read_standing(result: Any, keys: Collection[str]) -> Mapping[str, ConfigValues]:
    """Where each of these keys is set, from a DescribeConfigs result with synonyms.

    A key's synonyms may have other names (``log.retention.hours``): they are other settings.
    """
    found, length = [], 0
    for config in result.configs:
        if config.name in keys:
            at = {s.source: s.value for s in config.synonyms or () if s.name == config.name}
            length += sum(len(value or "") for value in at.values())
            found.append((intern(config.name), ConfigValues(*(at.get(source) for source in _SOURCES))))
    return _held_once(tuple(found)) if length <= _SHARED else dict(found)


# Nearly all brokers have the same values.


@lru_cache(64)
def _held_once(values: tuple[tuple[str, ConfigValues], ...]) -> Mapping[str, ConfigValues]:
    return {name: _value_held_once(value) for name, value in values}


@lru_cache(1024)
def _value_held_once(value: ConfigValues) -> ConfigValues:
    return value


def read_quota(answer: Any) -> dict[str, str]:
    """`PRODUCER_RATE` of the default user in a DescribeClientQuotas response, in whole bytes per second."""
    return {
        value.key: str(int(value.value))
        for entry in answer.entries or ()
        for value in entry.values
        if value.key == PRODUCER_RATE
    }


def failures(results: Iterable[tuple[str, int, str | None]], fine: Collection[int] = ()) -> list[str]:
    """Rejections as text: each (name, error code, message) whose code is neither zero nor an accepted one."""
    return [
        f"{name}: {for_code(code).__name__}" + (f" ({message})" if message else "")
        for name, code, message in results
        if code and code not in fine
    ]


def directory_text(value: Any) -> str:
    """A directory id in Kafka's text form (URL-safe base64 without padding); 22 times ``A`` for the zero id that voters of a static quorum have."""
    if value is None:  # the client's value for the all-zero id
        return "A" * 22
    raw = value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")

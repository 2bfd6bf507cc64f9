"""Whether a Kafka release accepts a configuration.

Kafka ignores a key that it does not know, and does not start with an invalid value. Spindle reports both before it changes anything.
"""

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from spindle.config.setting_values import wrong_value
from spindle.config.settings import SettingProblem, known
from spindle.config.settings_together import impossible
from spindle.model import versions
from spindle.model.free_settings import wanted_instead

_LONGEST: Final = 128  # characters of a key that are compared, because its length is not limited
_NEAR: Final = 0.6  # minimum of difflib's ratio for a suggestion
_GUESSED: Final = 16  # unknown keys per place that get a suggestion: the search delays all clusters
# So close to a known key that it counts as a typo even if a custom class could read settings of its own.
_SLIP: Final = 0.9
# Settings that load a class and pass the whole configuration to it.
_LOADERS: Final = (
    "alter.config.policy.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "group.consumer.assignors",
    "group.share.assignors",
    "kafka.metrics.reporters",
    "metric.reporters",
    "remote.log.metadata.manager.class.name",
    "remote.log.storage.manager.class.name",
    "replica.selector.class",
)
# Passed on to classes of Kafka itself: config providers, its JMX reporter and its CSV reporter.
_PASSED_ON: Final = ("config.providers.", "metrics.jmx.", "kafka.csv.metrics.")
# Settings whose value is the prefix of further keys.
_PREFIXES: Final = ("remote.log.metadata.manager.impl.prefix", "remote.log.storage.manager.impl.prefix")


def problems(
    settings: Mapping[str, str], version: str, around: Mapping[str, str] | None = None
) -> tuple[SettingProblem, ...]:
    """The user's settings that a Kafka release would ignore or reject, by key; empty if it accepts them all.

    An unsupported release gives no problems here; `spindle.model.versions` reports it.

    Args:
        settings: the user's settings, of the cluster or of a pool.
        version: the release.
        around: the whole configuration that these are part of, for the classes that it loads and for settings that depend on each other; None
            for only these.
    """
    whole = {**(around or {}), **settings}
    return _problems(tuple(sorted(settings.items())), version, tuple(sorted(whole.items())))


@lru_cache(maxsize=256)
def _problems(
    settings: tuple[tuple[str, str], ...], version: str, whole: tuple[tuple[str, str], ...]
) -> tuple[SettingProblem, ...]:
    table, everything = known(version), dict(whole)
    if not table:
        return ()
    found: list[SettingProblem] = []
    unknown = 0
    for key, value in settings:
        setting = table.get(key)
        if setting is None:
            unknown += 1
            found += _unknown(key, everything, version, guess=unknown <= _GUESSED)
        elif not _provided(value, everything):
            found += list(wrong_value(key, value, setting)) or _beyond_limits(key, value)
    if found:
        return tuple(found)  # settings that depend on each other are only compared when each is valid
    return tuple(impossible(dict(settings), everything, table))


def _beyond_limits(key: str, value: str) -> Iterator[SettingProblem]:
    wanted = wanted_instead(key, value)
    if wanted is not None:
        message = f'{key} cannot be "{value.strip()[:80]}": Spindle accepts {wanted}'
        yield SettingProblem(key, message, f"set {key} to {wanted}")


def _provided(value: str, whole: Mapping[str, str]) -> bool:
    """Whether a config provider supplies the value when Kafka starts."""
    return "${" in value and bool(whole.get("config.providers", "").strip())


@lru_cache(maxsize=1024)
def _nearest(key: str, version: str, cutoff: float) -> tuple[str, ...]:
    """The most similar setting, if any is similar enough."""
    documented = [name for name, of in known(version).items() if not of.internal]
    return tuple(difflib.get_close_matches(key, documented, 1, cutoff))


def _unknown(key: str, whole: Mapping[str, str], version: str, *, guess: bool) -> Iterator[SettingProblem]:
    table = known(version)
    prefixes = [whole.get(name) or table[name].default or "" for name in _PREFIXES if name in table]
    if key.startswith((*_PASSED_ON, *(prefix for prefix in prefixes if prefix))):
        return
    loaded = any(whole.get(loader, "").strip() for loader in _LOADERS)
    near = _nearest(key[:_LONGEST], version, _SLIP if loaded else _NEAR) if guess else ()
    if loaded and not near:
        return
    elsewhere = [minor for minor in versions.SUPPORTED if key in known(minor)]
    message = f"{key} is not a setting of Kafka {version}"
    if elsewhere:
        message += f"; it is one of {' and '.join(elsewhere)}"
    elif near:
        message += f"; the most similar one is {near[0]}"
    instead = f"use {near[0]} or remove {key}" if near and not elsewhere else f"remove {key}"
    yield SettingProblem(
        key,
        message,
        f"{instead}; a setting of a custom class is accepted only together with the setting that loads the class, for example metric.reporters",
    )

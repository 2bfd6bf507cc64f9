"""Whether a configuration is one that a Kafka release would take.

Kafka ignores a key that it does not know, and does not start with a value that it cannot use. Both are said before anything is done.
"""

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from spindle.cluster import versions
from spindle.cluster.setting_values import wrong_value
from spindle.cluster.settings import SettingProblem, known
from spindle.cluster.settings_together import impossible

_LONGEST: Final = 128  # letters of a key that are compared: nobody bounds a key's length
_NEAR: Final = 0.6  # of difflib's ratio: worth naming as what may have been meant
_GUESSED: Final = 16  # unknown keys of one place for which the nearest is looked for, which takes a while: all clusters wait for one spec to be checked
# So near to one that Kafka knows that it is taken for a slip even where a class of the user's may read settings of its own.
_SLIP: Final = 0.9
# Settings that load a class and hand it everything that the file says.
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
# Passed on to what Kafka itself brings: config providers, its JMX reporter and its CSV reporter.
_PASSED_ON: Final = ("config.providers.", "metrics.jmx.", "kafka.csv.metrics.")
# Settings whose value is the beginning of further keys.
_PREFIXES: Final = ("remote.log.metadata.manager.impl.prefix", "remote.log.storage.manager.impl.prefix")


def problems(
    settings: Mapping[str, str], version: str, around: Mapping[str, str] | None = None
) -> tuple[SettingProblem, ...]:
    """What of a user's settings a Kafka release would ignore or refuse, by key; empty if it takes them all.

    Nothing is said about a release that is not supported: that it is not is said elsewhere.

    Args:
        settings: the user's, of the cluster or of a pool.
        version: the release.
        around: the whole configuration that these become part of: classes that it loads, what must fit together. None for only these.
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
            found += wrong_value(key, value, setting)
    if found:
        return tuple(found)  # what cannot be read cannot be compared either
    return tuple(impossible(dict(settings), everything, table))


def _provided(value: str, whole: Mapping[str, str]) -> bool:
    """Whether a value is looked up by a config provider when Kafka starts."""
    return "${" in value and bool(whole.get("config.providers", "").strip())


@lru_cache(maxsize=1024)
def _nearest(key: str, version: str, cutoff: float) -> tuple[str, ...]:
    """The setting that a key is nearest to, if any is near."""
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
        message += f", it is one of {' and '.join(elsewhere)}"
    elif near:
        message += f"; the nearest one is {near[0]}"
    instead = f"use {near[0]} or remove {key}" if near and not elsewhere else f"remove {key}"
    yield SettingProblem(
        key,
        message,
        f"{instead}; a setting of a custom class is accepted together with the setting that loads the class, for example metric.reporters",
    )

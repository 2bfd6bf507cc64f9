"""The settings of brokers and of topics of each supported Kafka release: the tables under ``releases``, which ``tools/kafka_settings.py`` reads from its jars."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from spindle.model import versions


@dataclass(frozen=True, kw_only=True)
class SettingSpec:
    """One setting of a broker or a topic of one Kafka release.

    Attributes:
        type: type in Kafka's ConfigDef: boolean, class, double, int, list, long, password, short, string.
        least, most: inclusive range of a number; None for no limit.
        also: numbers outside of the range that are accepted.
        allowed: the only values of a string, or elements of a list; empty for any.
        any_case: whether those are case-insensitive.
        filled: whether an empty text or list is rejected.
        default: as text; None for none.
        update: of a broker's: ``read-only`` (only at the start), ``per-broker`` or ``cluster-wide`` (at runtime).
        sensitive: whether the value must not be repeated anywhere.
        internal: whether Kafka's documentation omits it.
    """

    type: str
    least: float | None = None
    most: float | None = None
    also: tuple[float, ...] = ()
    allowed: tuple[str, ...] = ()
    any_case: bool = False
    filled: bool = False
    default: str | None = None
    update: str = "read-only"
    sensitive: bool = False
    internal: bool = False


@dataclass(frozen=True)
class SettingProblem:
    """One setting that Kafka would ignore or reject.

    Attributes:
        key: the setting.
        message: what is wrong, a clause that begins with the key.
        way_out: what to set instead, a clause in the imperative.
    """

    key: str
    message: str
    way_out: str


@cache
def known(version: str) -> Mapping[str, SettingSpec]:
    """The settings of a release (``4.3.1``) by name; empty for an unsupported release."""
    return _table(version, "")


@cache
def known_of_topics(version: str) -> Mapping[str, SettingSpec]:
    """The settings of a topic of a release (``4.3.1``) by name; empty for an unsupported release."""
    return _table(version, "-topics")


def _table(version: str, of: str) -> Mapping[str, SettingSpec]:
    minor = ".".join(version.split(".")[:2])
    if minor not in versions.SUPPORTED:
        return {}
    text = (resources.files("spindle.config") / "releases" / f"{minor}{of}.json").read_text(encoding="utf-8")
    return {name: _setting(row) for name, row in json.loads(text).items()}


def _setting(row: Mapping[str, Any]) -> SettingSpec:
    return SettingSpec(
        type=row["type"],
        least=row.get("min"),
        most=row.get("max"),
        also=tuple(row.get("also", ())),
        allowed=tuple(row.get("allowed", ())),
        any_case=row.get("anyCase", False),
        filled=row.get("filled", False),
        default=row.get("default"),
        update=row.get("update", "read-only"),
        sensitive=row.get("sensitive", False),
        internal=row.get("internal", False),
    )

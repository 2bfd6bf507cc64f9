"""The broker settings of each Kafka release that is supported: the tables under ``releases``, which ``tools/kafka_settings.py`` reads from its jars."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from spindle.cluster import versions


@dataclass(frozen=True, kw_only=True)
class SettingSpec:
    """One broker setting of one Kafka release.

    Attributes:
        type: of Kafka's ConfigDef: boolean, class, double, int, list, long, password, short, string.
        least, most: of a number, both allowed; None for no bound.
        also: numbers outside of that which are allowed.
        allowed: the only values of a string, or members of a list; empty for any.
        any_case: whether they may be written in capitals or not.
        filled: whether an empty text or list is refused.
        default: as text; None where there is none.
        update: ``read-only`` (at a start), ``per-broker`` or ``cluster-wide`` (while it runs).
        sensitive: whether the value must not be repeated anywhere.
        internal: whether Kafka keeps it out of its own documentation.
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
    """One setting that Kafka would not use as it stands.

    Attributes:
        key: the setting.
        message: what is wrong, a clause that begins with the key.
        way_out: what to write instead, a clause in the imperative.
    """

    key: str
    message: str
    way_out: str


@cache
def known(version: str) -> Mapping[str, SettingSpec]:
    """The settings of a release (``4.3.1``) by name; empty for one that is not supported."""
    minor = ".".join(version.split(".")[:2])
    if minor not in versions.SUPPORTED:
        return {}
    text = (resources.files("spindle.cluster") / "releases" / f"{minor}.json").read_text(encoding="utf-8")
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
        update=row["update"],
        sensitive=row.get("sensitive", False),
        internal=row.get("internal", False),
    )

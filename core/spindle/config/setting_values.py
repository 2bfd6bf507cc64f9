"""Whether Kafka accepts a value for a setting: type, range, allowed values (ConfigDef.parseType and its validators)."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spindle.config.settings import SettingProblem, SettingSpec

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
# Each digit matches in one place only: with two places, a long text that is not a number would be tried with every split, for minutes.
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_CLASS: Final = re.compile(r"[\w$]+(\.[\w$]+)*")
_SHOWN: Final = 80  # characters of a value
_BITS: Final = {"short": 15, "int": 31, "long": 63}
_COMPRESSIONS: Final = 4  # Kafka's CompressionType: none, gzip, snappy, lz4, zstd as 0 to 4
_UPDATES: Final = 500  # ShareCoordinatorConfig; 4.3 has the range in its table
_OVERRIDE: Final = re.compile(r"[^,]+:\s*[0-9]+\s*")


def _at_least(least: int) -> Callable[[str], str | None]:
    return lambda value: None if int(value) >= least else f"{least} or more"


def _compression(value: str) -> str | None:
    return None if 0 <= int(value) <= _COMPRESSIONS else f"a whole number from 0 to {_COMPRESSIONS}"


def _with_classic(value: str) -> str | None:
    members = {member.strip() for member in value.split(",")}
    return None if "classic" in members else "a list that contains classic"


def _few_updates(value: str) -> str | None:
    return None if 0 <= int(value) <= _UPDATES else f"a whole number from 0 to {_UPDATES}"


def _overrides(value: str) -> str | None:
    fits = not value.strip() or all(_OVERRIDE.fullmatch(part) for part in value.split(","))
    return None if fits else "a list of addresses with numbers, for example 10.0.0.1:100,10.0.0.2:50"


# What Kafka checks outside of its table, in KafkaConfig and LogConfig: value → what is allowed, None if the value is valid.
_MORE: Final[Mapping[str, Callable[[str], str | None]]] = {
    "group.coordinator.rebalance.protocols": _with_classic,
    "log.cleaner.threads": _at_least(1),
    "log.flush.interval.ms": _at_least(0),
    "log.roll.jitter.ms": _at_least(0),
    "log.roll.ms": _at_least(1),
    "max.connections.per.ip.overrides": _overrides,
    "offsets.topic.compression.codec": _compression,
    "share.coordinator.snapshot.update.records.per.snapshot": _few_updates,
    "share.coordinator.state.topic.compression.codec": _compression,
}


def wrong_value(key: str, value: str, setting: SettingSpec) -> Iterator[SettingProblem]:
    """The problem with a value; nothing if Kafka accepts it."""
    wanted = _wanted(value.strip(), setting)
    if wanted is None and key in _MORE:
        wanted = _MORE[key](value.strip())
    if wanted is not None:
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        said = "its current value" if setting.sensitive else f'"{shown}"'
        yield SettingProblem(key, f"{key} cannot be {said}: Kafka accepts {wanted}", f"set {key} to {wanted}")


def _wanted(value: str, setting: SettingSpec) -> str | None:
    """What Kafka accepts for a setting, in words; None if it accepts this value."""
    if setting.type in _BITS or setting.type == "double":
        return None if _fits(value, setting) else _numbers(value, setting)
    if setting.type == "boolean":
        return None if value.lower() in ("true", "false") else "true or false"
    if setting.type == "list":
        return _list(value, setting)
    if setting.filled and not value:
        return "a non-empty string"
    if setting.type == "class":
        return None if _CLASS.fullmatch(value) else "the name of a Java class"
    return None if _is_allowed(value, setting) else _one_of(setting)


def _fits(value: str, setting: SettingSpec) -> bool:
    """Whether a text is a number within the range of the setting and of its type."""
    if not (_DECIMAL if setting.type == "double" else _WHOLE).fullmatch(value):
        return False
    number: float = float(value.rstrip("dDfF")) if setting.type == "double" else int(value)
    bits = _BITS.get(setting.type)
    if bits is not None and not -(2**bits) <= number < 2**bits:
        return False
    within = (setting.least is None or number >= setting.least) and (
        setting.most is None or number <= setting.most
    )
    return within or number in setting.also


def _numbers(value: str, setting: SettingSpec) -> str:
    kind = "a number" if setting.type == "double" else "a whole number"
    least, most, bits = setting.least, setting.most, _BITS.get(setting.type)
    if bits is not None and _WHOLE.fullmatch(value):  # it is a number, so it is out of range
        least = -(2**bits) if least is None else least
        most = 2**bits - 1 if most is None else most
    if least is not None and most is not None:
        text = f"{kind} from {least} to {most}"
    else:
        text = kind if least is None else f"{kind} of {least} or more"
    return f"{text}, or {' or '.join(str(n) for n in setting.also)}" if setting.also else text


def _list(value: str, setting: SettingSpec) -> str | None:
    members = [part.strip() for part in value.split(",")] if value else []
    if setting.filled and not members:
        return f"at least one of {', '.join(setting.allowed)}" if setting.allowed else "a non-empty list"
    if any(not member for member in members):
        return "a list without empty elements"
    if all(_is_allowed(member, setting) for member in members):
        return None
    return f"a list of {', '.join(setting.allowed)}"


def _is_allowed(value: str, setting: SettingSpec) -> bool:
    if not setting.allowed:
        return True
    if setting.any_case:
        return value.lower() in {each.lower() for each in setting.allowed}
    return value in setting.allowed


def _one_of(setting: SettingSpec) -> str:
    return f"one of {', '.join(setting.allowed)}"

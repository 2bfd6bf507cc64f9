"""Common parts of all objects, and the comparison of a live object with the desired one."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names, quantity
from spindle.model.memo import by_content

# Entries of lists are matched by the first of these keys that every entry has and that is unique in the list.
_MERGE_KEYS: Final = (
    "mountPath",
    "name",
    "uid",
    "type",
    "path",
    "containerPort",
    "port",
    "id",
    "topologyKey",
)
# The values in and below these fields are quantities, which the API server normalises.
_QUANTITY_MAPS: Final = frozenset({"requests", "limits", "capacity", "allocatedResources"})
_QUANTITIES: Final = frozenset({"size", "sizeLimit", "storage"})
# Most objects are the same in each pass.
_CACHED: Final = 16384
# Lists of strings to which others may add.
_SETS: Final = frozenset({"finalizers"})


def applied_hash(obj: Mapping[str, Any]) -> str:
    """Hash of an object without the annotation that holds the hash."""
    return _applied_hash(obj)


@by_content(_CACHED)
def _applied_hash(obj: Mapping[str, Any]) -> str:
    metadata = dict(obj.get("metadata") or {})
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != names.ANN_APPLIED}
    metadata.pop("annotations", None)
    if notes:
        metadata["annotations"] = notes
    text = json.dumps({**obj, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_applied(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its hash as annotation, so that removed fields are detected, too."""
    metadata = dict(obj.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), names.ANN_APPLIED: applied_hash(obj)}
    return {**obj, "metadata": metadata}


def drifted(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether a live object differs from the desired one.

    Additions by the API server, controllers and users do not count; all desired fields must be present. If
    ``desired`` comes from `with_applied`, a field that is no longer desired counts as well, because the hash differs.
    Values are equal if the API server may have normalised one to the other: equal quantities, a number and its
    text, an empty value and an absent one.
    """
    return not _contains(live, desired)


@by_content(_CACHED)
def _contains(live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    return _matches(live, desired, "", quantities=False)


def _matches(live: object, desired: object, key: str, *, quantities: bool) -> bool:
    """Whether a live value contains a desired one."""
    if isinstance(desired, Mapping):
        if not isinstance(live, Mapping):
            return live is None and all(
                _matches(None, value, "", quantities=False) for value in desired.values()
            )
        below = quantities or key in _QUANTITY_MAPS
        return all(_matches(live.get(k), value, k, quantities=below) for k, value in desired.items())
    if isinstance(desired, list | tuple):
        return _lists(list(live) if isinstance(live, list | tuple) else [], list(desired), key)
    if live is None or desired is None:
        # The API server omits empty values; a null in a desired object requests nothing.
        return desired is None or desired in ("", 0) or desired is False
    return _equal(live, desired, quantities=quantities or key in _QUANTITIES)


def _lists(live: list[object], desired: list[object], key: str) -> bool:
    """Compare lists of objects by their merge key, other lists by their order."""
    if not desired:
        return True
    if not all(isinstance(entry, Mapping) for entry in desired):
        if key in _SETS:
            return all(entry in live for entry in desired)
        return len(live) == len(desired) and all(
            _matches(a, b, "", quantities=False) for a, b in zip(live, desired, strict=True)
        )
    merge = _merge_key(desired, live)
    if merge is not None:
        by_key = {str(entry[merge]): entry for entry in live if isinstance(entry, Mapping) and merge in entry}
        return all(
            isinstance(entry, Mapping)
            and _matches(by_key.get(str(entry[merge])), entry, "", quantities=False)
            for entry in desired
        )
    # No key: all desired entries must be found in their order; the API server may have inserted others.
    rest = iter(live)
    return all(any(_matches(found, entry, "", quantities=False) for found in rest) for entry in desired)


def _merge_key(desired: list[object], live: list[object]) -> str | None:
    """The key that identifies the entries of a list; a key that is empty in some entry is not used."""
    for key in _MERGE_KEYS:
        values = [entry.get(key) for entry in desired if isinstance(entry, Mapping)]
        there = [entry[key] for entry in live if isinstance(entry, Mapping) and key in entry]
        if all(isinstance(v, str | int) and v and v is not True for v in values) and all(
            len({str(v) for v in some}) == len(some) for some in (values, there)
        ):
            return key
    return None


def _equal(live: object, desired: object, *, quantities: bool) -> bool:
    """Whether two scalars are equal after normalisation."""
    if isinstance(live, bool) or isinstance(desired, bool):
        return live is desired
    if str(live) == str(desired):
        return True
    if isinstance(live, int | float) and isinstance(desired, int | float):
        return live == desired
    if quantities and isinstance(live, str | int) and isinstance(desired, str | int):
        try:
            return quantity.parse(live) == quantity.parse(desired)
        except ValueError:
            return False
    return False

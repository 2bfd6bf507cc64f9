"""Whose the fields are that a POST set.

Server-side apply takes a field away only if nobody but the applier owns it, and the API server keeps what we created and what we apply
as two owners (operations ``Update`` and ``Apply`` of one field manager). Without this a field that a Create set, or an entry of a list,
could never be taken away again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.cluster import names

Entry = Mapping[str, Any]


def taken_over(managed: Iterable[Entry]) -> list[Entry] | None:
    """``metadata.managedFields`` in which the spec that our Create set belongs to our apply.

    Args:
        managed: what the API server answered.

    Returns:
        None where it does so already.
    """
    entries = list(managed)
    created = next(
        (entry for entry in entries if _ours(entry, "Update") and "f:spec" in _fields(entry)), None
    )
    if created is None:
        return None
    spec = {"f:spec": _fields(created)["f:spec"]}
    applied = next((entry for entry in entries if _ours(entry, "Apply")), None)
    own = {
        **(applied or created),
        "operation": "Apply",
        "fieldsV1": _merged(_fields(applied or created), spec),
    }
    rest = {key: value for key, value in _fields(created).items() if key != "f:spec"} if applied else {}
    others = [entry for entry in entries if entry is not created and entry is not applied]
    return [*others, own, *([{**created, "fieldsV1": rest}] if rest else [])]


def _ours(entry: Entry, operation: str) -> bool:
    return (
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == operation
        and not entry.get("subresource")
    )


def _fields(entry: Entry) -> Mapping[str, Any]:
    return entry.get("fieldsV1") or {}


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: _merged(one[key], other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}

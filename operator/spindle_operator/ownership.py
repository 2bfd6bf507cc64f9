"""Field ownership after a POST.

Server-side apply removes a field only if the applier is its only owner, and the API server records a create and an apply of one
field manager as two owners (operations ``Update`` and ``Apply``). Without this module a field or list entry that a create has set
could never be removed by an apply.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names

Entry = Mapping[str, Any]
_META: Final = "f:metadata"
_ANNOTATIONS: Final = "f:annotations"


def taken_over(managed: Iterable[Entry], *, spec_only: bool = True) -> list[Entry] | None:
    """``metadata.managedFields`` in which the fields of Spindle's create belong to its apply.

    Args:
        managed: as returned by the API server.
        spec_only: leave metadata out; else labels, owners and annotations are included, except annotations of Spindle's domain: patches set
            those as well, and an apply must not remove them.

    Returns:
        None if no change is needed.
    """
    entries = list(managed)
    split = _spec if spec_only else _all
    created = next((entry for entry in entries if _ours(entry, "Update") and split(_fields(entry))[0]), None)
    if created is None:
        return None
    moved, stays = split(_fields(created))
    applied = next((entry for entry in entries if _ours(entry, "Apply")), None)
    own = {
        **(applied or created),
        "operation": "Apply",
        "fieldsV1": _merged(_fields(applied), moved) if applied else moved,
    }
    others = [entry for entry in entries if entry is not created and entry is not applied]
    return [*others, own, *([{**created, "fieldsV1": stays}] if stays else [])]


def _spec(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Fields that move to Spindle's apply, and fields that stay."""
    stays = {key: value for key, value in fields.items() if key != "f:spec"}
    return {key: fields[key] for key in ("f:spec",) if key in fields}, stays


def _all(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The same, including labels, owners and annotations outside Spindle's domain."""
    meta = fields.get(_META) or {}
    notes = meta.get(_ANNOTATIONS) or {}
    own = {key: value for key, value in notes.items() if key.startswith(f"f:{names.GROUP}/") or key == "."}
    theirs = {key: value for key, value in notes.items() if key not in own}
    moved_meta = {key: meta[key] for key in ("f:labels", "f:ownerReferences") if key in meta}
    moved_meta |= {_ANNOTATIONS: theirs} if theirs else {}
    stays_meta = {key: value for key, value in meta.items() if key not in (*moved_meta, _ANNOTATIONS)}
    stays_meta |= {_ANNOTATIONS: own} if own else {}
    moved = {key: value for key, value in fields.items() if key != _META}
    return (
        {**moved, **({_META: moved_meta} if moved_meta else {})},
        {_META: stays_meta} if stays_meta else {},
    )


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

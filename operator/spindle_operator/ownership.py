"""Whose the fields are that a POST set.

Server-side apply takes a field away only if nobody but the applier owns it, and the API server keeps what we created and what we apply
as two owners (operations ``Update`` and ``Apply`` of one field manager). Without this a field that a Create set, or an entry of a list,
could never be taken away again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.cluster import names

Entry = Mapping[str, Any]
_META: Final = "f:metadata"
_ANNOTATIONS: Final = "f:annotations"


def taken_over(managed: Iterable[Entry], *, spec_only: bool = True) -> list[Entry] | None:
    """``metadata.managedFields`` in which what our Create set belongs to our apply.

    Args:
        managed: what the API server answered.
        spec_only: of its metadata nothing; else labels, owners and annotations, too, but for annotations of our own domain: those are set by
            patches as well, and an apply must not take them away.

    Returns:
        None where it does so already.
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
        "fieldsV1": _merged(_fields(applied or created), moved),
    }
    rest = stays if applied else {}
    others = [entry for entry in entries if entry is not created and entry is not applied]
    return [*others, own, *([{**created, "fieldsV1": rest}] if rest else [])]


def _spec(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What goes over to our apply, and what stays."""
    stays = {key: value for key, value in fields.items() if key != "f:spec"}
    return {key: fields[key] for key in ("f:spec",) if key in fields}, stays


def _all(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The same, of labels, owners and other people's annotations as well."""
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

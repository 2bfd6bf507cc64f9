"""Writes the fields of a user's request with server-side apply, each request with a field manager of its own.

So requests for different disks, or by different people, merge. A field that another tool owns, for example one for GitOps, is left to it:
it would only be reverted.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle_cli.kube import FIELD_MANAGER, ConflictError, Json, Kube, KubeError, ReplacedError

# Field managers of people at a terminal: their earlier requests are replaced by the present one.
_PEOPLE: Final = ("kubectl-patch", "kubectl-edit", "kubectl-create", "kubectl-replace")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OWN_PREFIX: Final = f"{FIELD_MANAGER}-"


@dataclass(frozen=True)
class FieldRequest:
    """Fields of one object that a command sets.

    Attributes:
        kind, name: of the object.
        what: the part of the field manager's name that tells requests for the same object apart.
        spec: the fields; empty to withdraw the request.
    """

    kind: str
    name: str
    what: str
    spec: Mapping[str, Any]

    @property
    def manager(self) -> str:
        """The field manager."""
        return f"{_OWN_PREFIX}{self.what}"

    def body(self, uid: str) -> Json:
        """The object to apply; the uid keeps an apply from creating an object."""
        return {
            "apiVersion": "spindle.dev/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": self.name, "uid": uid},
            "spec": dict(self.spec),
        }


def write(kube: Kube, request: FieldRequest, uid: str, *, force: bool) -> Json:
    """Apply a request; returns the object.

    Args:
        uid: of the object as it was read.
        force: take the fields over, whoever owns them.

    Raises:
        KubeError: another tool owns a field, with another value; the message names it and the way out.
    """
    body = request.body(uid)
    try:
        return kube.apply(body, request.manager, force=force)
    except ReplacedError as error:
        raise KubeError(f"{error}: run the command again") from error
    except ConflictError as error:
        if not error.managers:
            raise KubeError(f"{error}: run the command again") from error
        others = strangers(error.managers)
        if others:
            filled_in = owners_of_defaults(kube.raw(request.kind, request.name), request.spec)
            others = tuple(each for each in others if each not in filled_in)
        if others:
            raise KubeError(
                f"{request.kind} {request.name}: {_said(others)} these fields, with other values. Change them there, or, to take them over, "
                "repeat the command with --force"
            ) from error
    return kube.apply(body, request.manager, force=True)


def withdraw_entry(kube: Kube, request: FieldRequest, path: tuple[str, ...], *, force: bool) -> bool:
    """Remove an entry of a list of named entries; whether there was one.

    Args:
        request: whose manager made the entry, with an empty spec.
        path: fields from the spec to the list, then the name of the entry.
        force: remove it, whoever made it.

    Raises:
        KubeError: another tool owns the entry; the message names it and the way out.
    """
    *fields, name = path
    before = kube.raw(request.kind, request.name)
    if _index(before, fields, name) is None:
        return False
    after = kube.apply(request.body(before["metadata"]["uid"]), request.manager)
    index = _index(after, fields, name)
    if index is None:
        return True
    others = strangers(owners(after, fields, name))
    if others and not force:
        raise KubeError(
            f"the entry {name} of spec.{'.'.join(fields)} of {request.kind} {request.name} stays: {_said(others)} it. Remove it there, or repeat the "
            "command with --force"
        )
    place = f"/spec/{'/'.join(fields)}/{index}"
    unchanged = {"op": "test", "path": f"{place}/name", "value": name}
    kube.json_patch(request.kind, request.name, [unchanged, {"op": "remove", "path": place}])
    return True


def owners_of_defaults(obj: Mapping[str, Any], wanted: Mapping[str, Any]) -> frozenset[str]:
    """Field managers that own the wanted fields only because the API server filled in defaults.

    ``kubectl apply`` without server-side apply, and tools that do the same, own every default. The annotation that they leave has what they set: they
    do not revert a field that is not in it.
    """
    applied = (obj["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if applied is None or _sets(json.loads(applied).get("spec") or {}, wanted):
        return frozenset()
    fields = obj["metadata"].get("managedFields") or ()
    return frozenset(str(each["manager"]) for each in fields if each.get("operation") == "Update")


def _sets(applied: Any, wanted: Any) -> bool:
    """Whether something that was applied has one of the wanted fields."""
    if isinstance(wanted, Mapping):
        return isinstance(applied, Mapping) and any(
            key in applied and _sets(applied[key], value) for key, value in wanted.items() if key != "name"
        )
    if isinstance(wanted, list):
        named = {each.get("name"): each for each in applied or ()}
        return any(each["name"] in named for each in wanted)
    return True


def strangers(managers: tuple[str, ...]) -> tuple[str, ...]:
    """The field managers that are not people at a terminal."""
    return tuple(
        each
        for each in managers
        if each not in _PEOPLE and each != FIELD_MANAGER and not each.startswith(_OWN_PREFIX)
    )


def owners(obj: Mapping[str, Any], fields: list[str], name: str) -> tuple[str, ...]:
    """Field managers that own the entry of this name."""
    return tuple(dict.fromkeys(_owners(obj, fields, f'k:{{"name":"{name}"}}')))


def _owners(obj: Mapping[str, Any], fields: list[str], key: str) -> Iterator[str]:
    for each in obj["metadata"].get("managedFields") or ():
        found: Any = each.get("fieldsV1") or {}
        for step in ("f:spec", *(f"f:{field}" for field in fields), key):
            found = (found or {}).get(step)
        if found is not None:
            yield str(each["manager"])


def _index(obj: Mapping[str, Any], fields: list[str], name: str) -> int | None:
    found: Any = obj.get("spec") or {}
    for field in fields:
        found = (found or {}).get(field)
    return next((index for index, entry in enumerate(found or ()) if entry.get("name") == name), None)


def _said(managers: tuple[str, ...]) -> str:
    return f"{', '.join(managers)} {'owns' if len(managers) == 1 else 'own'}"

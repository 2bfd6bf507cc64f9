"""Server-side apply: which manager owns which fields of an object, and the result of an apply."""

import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path as FilePath
from typing import Any

import yaml

import spindle

Path = tuple[Any, ...]
Owners = dict[tuple[str, str], set[Path]]

_IDENTITY = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "managedFields",
    "generation",
    "creationTimestamp",
)
_CORE = {("status", "conditions"): ("type",)}


@cache
def list_maps(kind: str) -> Mapping[Path, tuple[str, ...]]:
    """Path of a list → the keys that identify its entries, from the CRD."""
    found: dict[Path, tuple[str, ...]] = dict(_CORE)
    root = FilePath(next(iter(spindle.__path__))).parents[1] / "crds"
    if kind.startswith("Kafka"):
        found.update(_walk(_definitions(root).get(kind, {}), ()))
    return found


@cache
def _definitions(root: FilePath) -> Mapping[str, Mapping[str, Any]]:
    """Kind → its schema, from all CRDs."""
    all_of_them = [
        yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["spec"] for file in sorted(root.glob("*.yaml"))
    ]
    return {spec["names"]["kind"]: spec["versions"][0]["schema"]["openAPIV3Schema"] for spec in all_of_them}


def _walk(schema: Mapping[str, Any], at: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if schema.get("x-kubernetes-list-type") == "map":
        yield at, tuple(schema["x-kubernetes-list-map-keys"])
    for name, below in (schema.get("properties") or {}).items():
        yield from _walk(below, (*at, name))
    if "items" in schema:
        yield from _walk(schema["items"], at)


def leaves(kind: str, obj: Mapping[str, Any], *, only: str = "") -> dict[Path, Any]:
    """Every leaf of an object except its identity; entries of a map list are identified by their keys."""
    maps, found = list_maps(kind), dict[Path, Any]()
    for key, value in obj.items():
        if key in ("apiVersion", "kind") or (only and key != only):
            continue
        below = {k: v for k, v in value.items() if k not in _IDENTITY} if key == "metadata" else value
        _flatten(maps, below, (key,), (key,), found)
    return found


def _flatten(
    maps: Mapping[Path, tuple[str, ...]], value: Any, at: Path, plain: Path, found: dict[Path, Any]
) -> None:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            _flatten(maps, below, (*at, key), (*plain, key), found)
    elif isinstance(value, list) and plain in maps:
        for entry in value:
            which = (*at, ("[]", *(entry.get(key) for key in maps[plain])))
            found[which] = None
            for key, below in entry.items():
                _flatten(maps, below, (*which, key), (*plain, key), found)
    else:
        found[at] = value


def applied(
    kind: str,
    live: Mapping[str, Any],
    wanted: Mapping[str, Any],
    owners: Owners,
    manager: str,
    *,
    only: str = "",
) -> dict[str, Any]:
    """The object after an apply with force; ``owners`` is updated."""
    new = leaves(kind, wanted, only=only)
    before = leaves(kind, live, only=only)
    key = (manager, f"Apply {only}")
    gone = owners.get(key, set()) - new.keys()
    owners[key] = set(new)
    for other, paths in owners.items():
        if other != key:
            paths.difference_update([path for path in new.keys() & paths if before.get(path) != new[path]])
    held = set().union(*(paths for other, paths in owners.items())) if gone else set()
    result = _merged(list_maps(kind), live, {k: v for k, v in wanted.items() if not only or k == only}, ())
    for path in sorted(gone - held, key=len):  # an entry of a list before its contents
        if not any(other[: len(path)] == path for other in held):
            _remove(list_maps(kind), result, path)
    return dict(result)


def updated(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], owners: Owners, manager: str
) -> None:
    """A client that changes a field other than by apply owns it from then on."""
    old, new = leaves(kind, before), leaves(kind, after)
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    gone = old.keys() - new.keys()
    if not changed and not gone:
        return
    for paths in owners.values():
        paths.difference_update(changed | gone)
    owners.setdefault((manager, "Update"), set()).update(changed)


def managed(owners: Owners) -> list[dict[str, Any]]:
    """``metadata.managedFields``, except for the notation of paths below ``spec`` and the like."""
    entries = []
    for (manager, operation), paths in owners.items():
        name, _, sub = operation.partition(" ")
        tree: dict[str, Any] = {}
        for _, text, path in sorted([(*_written(path), path) for path in paths], key=_first):
            tree.setdefault(f"f:{path[0]}", {})[text] = {}
        entries.append({"manager": manager, "operation": name, "subresource": sub, "fieldsV1": tree})
    return entries


@lru_cache(maxsize=1 << 16)
def _written(path: Path) -> tuple[str, str]:
    """Sort key and text of a path, cached: runs have the same few thousand paths."""
    return repr(path), json.dumps(path)


_first = itemgetter(0)


def reassigned(entries: list[dict[str, Any]]) -> Owners:
    """The owners that a client wrote into ``metadata.managedFields``."""
    owners: Owners = {}
    for entry in entries:
        operation = f"Apply {entry['subresource']}" if entry["operation"] == "Apply" else entry["operation"]
        paths = {_path(text) for tree in entry["fieldsV1"].values() for text in tree}
        owners.setdefault((entry["manager"], operation), set()).update(paths)
    return owners


def _path(text: str) -> Path:
    return tuple(tuple(step) if isinstance(step, list) else step for step in json.loads(text))


def _merged(maps: Mapping[Path, tuple[str, ...]], live: Any, wanted: Any, plain: Path) -> Any:
    if isinstance(wanted, dict):
        result = dict(live) if isinstance(live, dict) else {}
        for key, value in wanted.items():
            if plain == ("metadata",) and key in _IDENTITY:
                continue
            result[key] = _merged(maps, result.get(key), value, (*plain, key))
        return result
    if isinstance(wanted, list) and plain in maps:
        keys = maps[plain]
        entries = {tuple(e.get(k) for k in keys): e for e in live or ()}
        for entry in wanted:
            which = tuple(entry.get(k) for k in keys)
            entries[which] = _merged(maps, entries.get(which), entry, plain)
        return list(entries.values())
    return wanted


def _remove(maps: Mapping[Path, tuple[str, ...]], obj: Any, path: Path) -> None:
    """Remove a leaf, and what is empty after that; an entry of a list is removed with its key."""
    plain: Path = ()
    chain: list[tuple[Any, Any]] = []
    for step in path:
        if isinstance(step, tuple) and step and step[0] == "[]":
            keys = maps[plain]
            index = next((i for i, e in enumerate(obj) if tuple(e.get(k) for k in keys) == step[1:]), None)
            if index is None:
                return
            chain.append((obj, index))
            obj[index] = _copied(obj[index])
            obj = obj[index]
        else:
            if not isinstance(obj, dict) or step not in obj:
                return
            chain.append((obj, step))
            obj[step] = _copied(obj[step])
            obj = obj[step]
            plain = (*plain, step)
    parent, step = chain[-1]
    del parent[step]
    for parent, step in reversed(chain[:-1]):
        if len(chain) > 1 and parent[step] == {} and step not in ("spec", "status", "metadata", "data"):
            del parent[step]


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value


def merged(live: Any, change: Any) -> Any:
    """JSON merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(live) if isinstance(live, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result

"""The report of an inspection of the disks, small enough for a container's termination message (4096 bytes)."""

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from spindle.api.reported_text import clipped
from spindle.model.dir_list import NO_LIST, DirList, read_list

LIMIT: Final = 4096
_PROBLEM_CHARACTERS: Final = 100
_COMPRESSED: Final = "zip"
# A report without compression: 64 disks with long problems need less than half of that.
_LARGEST: Final = 2**17  # bytes
_MOST_VALUES: Final = 5000
_READ: Final = 512  # cached reports: that of a pod does not change while it runs
_LOG_DIRS: Final = "logDirs"
_NONCE: Final = "nonce"
_MINIMAL: Final = ("name", "state", "fsUuid", "replicas")
_USEFUL: Final = (*_MINIMAL, "device", "mount", "problem")
_TEXTS: Final = frozenset({"name", "state", "fsUuid", "fsType", "device", "mount", "problem", "wayOut"})
_NUMBERS: Final = frozenset({"totalBytes", "usedBytes", "replicas"})
_MOST_BYTES: Final = 2**63 - 1

Entry = Mapping[str, Any]


def render(entries: Sequence[Entry], log_dirs: DirList = NO_LIST, nonce: str | None = None) -> str:
    """All entries as JSON. With many disks, details are omitted and then the report is compressed, but no disk is omitted.

    Args:
        log_dirs: the list of log dirs on the disks, if it is newer than the pod's.
        nonce: the nonce that a clearance answering this report must repeat.
    """
    text, listed = "", {_LOG_DIRS: log_dirs.document()} if log_dirs else {}
    once = {_NONCE: nonce} if nonce else {}
    for detail in (_everything, _brief, _useful, _minimal):
        plain = _dump({"disks": [detail(entry) for entry in entries], **listed, **once})
        for text in (
            plain,
            _dump({_COMPRESSED: base64.b64encode(zlib.compress(plain.encode(), 9)).decode()}),
        ):
            if len(text.encode()) <= LIMIT:
                return text
    return text[:LIMIT]


def parse(text: str) -> dict[str, dict[str, Any]]:
    """Disk name → its entry.

    The report is part of the status of a pod, which the kubelet writes: a compromised node can write anything there. One malformed value
    makes the whole report unreadable, so that it cannot end the pass of a cluster whose other nodes are sound. Long texts are cut.

    Raises:
        ValueError: the text is not a report.
    """
    try:
        document = _document(text)
        return {str(entry["name"]): _checked(entry) for entry in document["disks"]}
    except (TypeError, KeyError, AttributeError, RecursionError, zlib.error) as error:
        raise ValueError(f"not a report of disks: {error!r}") from error


def _checked(entry: Entry) -> dict[str, Any]:
    checked = dict(entry)
    for key, value in entry.items():
        if value is None:
            continue
        if key in _TEXTS:
            if not isinstance(value, str):
                raise ValueError(f"{key} of a disk is not a string")
            checked[key] = clipped(value)
        elif key in _NUMBERS and (type(value) is not int or not 0 <= value <= _MOST_BYTES):
            raise ValueError(f"{key} of a disk is not a number of bytes or replicas")
    return checked


def parse_log_dirs(text: str) -> DirList:
    """The list of log dirs in a report; `NO_LIST` if there is none."""
    try:
        return read_list(_document(text).get(_LOG_DIRS))
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error):
        return NO_LIST


def parse_nonce(text: str) -> str | None:
    """The nonce of a report; None if it has none, as reports of versions without nonces."""
    try:
        found = _document(text).get(_NONCE)
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error):
        return None
    return found if isinstance(found, str) and found else None


@lru_cache(maxsize=_READ)
def _document(text: str) -> Any:
    """The parsed report; shared by all callers, so it must not be modified.

    Raises:
        ValueError: it is not JSON, or larger than any report: four kilobytes could be megabytes without compression, and a hundred of these in objects.
    """
    document = json.loads(text)
    if _COMPRESSED in document:
        unpacked = zlib.decompressobj().decompress(base64.b64decode(document[_COMPRESSED]), _LARGEST + 1)
        if len(unpacked) > _LARGEST:
            raise ValueError(f"the report has more than {_LARGEST} bytes without compression")
        document = json.loads(unpacked)
    if _values(document) > _MOST_VALUES:
        raise ValueError(f"the report has more than {_MOST_VALUES} values")
    return document


def _values(document: Any) -> int:
    """How many values, lists and objects there are."""
    count, rest = 0, [document]
    while rest:
        value = rest.pop()
        count += 1
        rest += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return count


def _dump(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _everything(entry: Entry) -> Entry:
    return entry


def _brief(entry: Entry) -> Entry:
    """Without what the reader already knows (the identity of a disk that is ours) and without empty fields."""
    return {
        key: _short(value)
        for key, value in entry.items()
        if value is not None and not (key == "identity" and entry.get("state") == "ours")
    }


def _useful(entry: Entry) -> Entry:
    return _only(_USEFUL, _short)(entry)


def _minimal(entry: Entry) -> Entry:
    return _only(_MINIMAL, lambda value: value)(entry)


def _only(keys: Sequence[str], shorten: Callable[[Any], Any]) -> Callable[[Entry], Entry]:
    return lambda entry: {key: shorten(entry[key]) for key in keys if entry.get(key) is not None}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _PROBLEM_CHARACTERS:
        return value[: _PROBLEM_CHARACTERS - 1] + "…"
    return value

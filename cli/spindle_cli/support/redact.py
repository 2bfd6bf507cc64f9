"""Takes secrets out of what goes into a support bundle: pure functions.

Three rules, each of which alone removes most secrets. Values in places that may hold one (environment variables, settings with a name like
password, the annotation of kubectl apply) are removed whatever they are. What looks like key material is removed wherever it is. And every
value of a Secret that the user may read is looked for, in plain text, in base64, and in parts.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

REMOVED: Final = "<removed>"

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# Names of settings, options and fields whose value is a secret.
_NAMES: Final = (
    r"(?:password|passwd|passphrase|pwd|_pass(?![a-z])|secret|token|credential|jaas|cookie"
    r"|private.?key|api.?key|access.?key|account.?key|keystore\.key|key\.pem)"
)
_SENSITIVE: Final = re.compile(_NAMES, re.IGNORECASE)
_PASSWORDS: Final = re.compile(r"(?:password|passwd|passphrase|pwd)s?$", re.IGNORECASE)
_OPTION: Final = re.compile(rf"--?[\w.-]*{_NAMES}[\w.-]*", re.IGNORECASE)
# Fields of Spindle's and Kubernetes' resources that only name something, or are needed to understand the rest.
_HARMLESS: Final = frozenset(
    {
        "secretName", "secretRef", "secretKeyRef", "imagePullSecrets", "automountServiceAccountToken", "caSecret", "serviceAccountToken",
        "token",  # of acceptDataLoss: it names partitions
        "secrets", "restoredSecrets",
    }
)  # fmt: skip
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_LONG: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
# The end of a key whose beginning was cut off: a log starts where its oldest part was dropped.
_PEM_END: Final = re.compile(r"\A(?:[A-Za-z0-9+/=]{1,76}\s+){1,200}-----END [A-Z0-9 ]+-----")
# Every repetition below has a limit: a line without one match must not cost the square of its length.
_KEY: Final = rf"{_NAMES}[\w.-]{{0,80}}"
# A setting that fills its line, with the lines that continue it: key = some words, key: | in YAML.
_LINE: Final = re.compile(
    rf"""^(?P<key>(?P<indent>[ \t]{{0,40}})[\w.-]{{0,80}}?{_KEY}[ \t]{{0,8}}[=:][ \t]{{0,8}})"""
    r"""(?:[|>][+-]?[ \t]{0,8}(?:\n(?P=indent)[ \t]+[^\n]*){1,400}|[^\s"'](?:[^\n\\]|\\(?:\n|.)){0,4000}\\?)""",
    re.IGNORECASE | re.MULTILINE,
)
# key=value, key: value, "key": "value", the same escaped in another text, --key value, <key>value</key>
_ASSIGNED: Final = re.compile(
    rf"""(?P<key>{_KEY}(?:\\{{0,8}}["'])?\s{{0,8}}[=:]\s{{0,8}}|(?<![\w.-])--[\w.-]{{0,80}}?{_KEY}[ =]|<[\w.:-]{{0,80}}?{_KEY}>)"""
    r"""(?P<value>\\+"[^"\\]*\\+"|"(?:\\.|[^"\\])*"|'[^']*'|[^\s,;&<]+)""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b(Bearer|Basic|ApiKey)\s{1,8}[\w.~+/=-]{8,}", re.IGNORECASE)
_JWT: Final = re.compile(r"(?<![\w-])eyJ[\w-]{4,}\.[\w-]{4,}\.[\w-]*")
# user:password@ and token@; a port is no password.
_URL: Final = re.compile(r"""(://[^\s/:@"']{1,128}:)(?!\d+/)[^\s"'<>]{1,256}@|(://)[^\s/:@"']{16,256}@""")
_DELIMITERS: Final = frozenset(" \t\r\n\"'`,;(){}[]<>")
_RUN: Final = re.compile(r"[^\s\"'`,;(){}\[\]<>]{4,}")
_WINDOW: Final = 12
_SHORTEST: Final = 4  # shorter values are words that occur everywhere
_MOST_WINDOWED: Final = 512  # longer values are keys and certificates: their lines are looked for
_PUBLIC: Final = re.compile(r"(?:^|\.)(?:crt|cert)$|^bootstrap(?:\.servers)?$|^user$|^username$|^namespace$")


class Scrubber:
    """Finds the values of Secrets in text."""

    def __init__(self, secrets: Iterable[Mapping[str, Any]] = ()) -> None:
        """Take the values of Secrets as the API server gives them.

        Args:
            secrets: raw, with `data` in base64.
        """
        self._parts: set[str] = set()  # whole words that are removed
        self._windows: set[str] = set()  # parts of values
        self._short: set[str] = set()  # values that are shorter than a window
        for value in _values(secrets):
            self._learn(value)
        self._shorts = re.compile(
            "|".join(map(re.escape, sorted(self._short, key=len, reverse=True))) or r"(?!)"
        )

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = _PEM_END.sub(REMOVED, _PEM.sub(REMOVED, text))
        text = _LINE.sub(lambda found: f"{found['key']}{REMOVED}", text)
        text = _ASSIGNED.sub(lambda found: f"{found['key']}{REMOVED}", text)
        text = _BEARER.sub(lambda found: f"{found[1]} {REMOVED}", text)
        text = _JWT.sub(REMOVED, text)
        text = _URL.sub(lambda found: f"{found[1] or found[2]}{REMOVED}@", text)
        text = self._without_parts(_RUN.sub(self._run, text))
        text = self._shorts.sub(REMOVED, text)
        return _LONG.sub(_without_material, text)

    def value(self, value: Any) -> Any:
        """JSON whose texts have no secrets; the values of fields with a name like password are removed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            named = _SENSITIVE.search(str(value.get("name", ""))) is not None
            return {
                str(key): REMOVED
                if _is_sensitive(str(key), each) or (named and key == "value")
                else self.value(each)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                REMOVED if at and _is_option(value[at - 1]) else self.value(each)
                for at, each in enumerate(value)
            ]
        return value

    def _learn(self, value: bytes) -> None:
        for form in _forms(value):
            text = form.strip()
            if len(text) < _WINDOW:
                self._short.update([text] if len(text) >= _SHORTEST else ())
            elif len(text) <= _MOST_WINDOWED:
                self._windows.update(text[at : at + _WINDOW] for at in range(len(text) - _WINDOW + 1))
            self._parts.update(line.strip() for line in text.splitlines() if len(line.strip()) >= _WINDOW)

    def _run(self, found: re.Match[str]) -> str:
        return REMOVED if found[0] in self._parts else found[0]

    def _without_parts(self, text: str) -> str:
        """Remove parts of values, with the rest of the words that they begin or end in."""
        if not self._windows:
            return text
        windows = self._windows
        hits = [at for at in range(len(text) - _WINDOW + 1) if text[at : at + _WINDOW] in windows]
        kept: list[str] = []
        end = 0
        for at in hits:
            if at + _WINDOW <= end:
                continue
            start = at
            while start > end and text[start - 1] not in _DELIMITERS:
                start -= 1
            kept += [text[end:start], REMOVED] if start > end or not kept else []
            end = at + _WINDOW
            while end < len(text) and text[end] not in _DELIMITERS:
                end += 1
        return "".join([*kept, text[end:]])


def _values(secrets: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Values that are secret: certificates and addresses are not."""
    for secret in secrets:
        for key, value in (secret.get("data") or {}).items():
            if not _PUBLIC.search(str(key)):
                yield base64.b64decode(value or "")


def _forms(value: bytes) -> Iterator[str]:
    """The value as text, each of its lines, and both in base64, wherever in a longer text they begin."""
    pieces = {value, value.strip(), *(line.strip() for line in value.splitlines())}
    for piece in pieces:
        if len(piece) < _SHORTEST or piece.startswith(b"-----"):
            continue
        text = piece.decode(errors="replace")
        yield from {
            text,
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            quote(text, safe=""),
        }
        for shift in range(3):
            coded = base64.b64encode(b"\0" * shift + piece).decode()
            # The first and last characters depend on what stands beside it.
            core = coded[4 if shift else 0 :].rstrip("=")
            yield core[:-1] if shift or len(piece) % 3 else core


def _without_material(found: re.Match[str]) -> str:
    """A long word of mixed letters and digits is key material; names, paths and hexadecimal digits are not."""
    run = found[0]
    mixed = all(any(test(c) for c in run) for test in (str.islower, str.isupper, str.isdigit))
    return REMOVED if mixed else run


def _is_sensitive(key: str, value: Any) -> bool:
    if key in _HARMLESS:
        return False
    if isinstance(value, str):
        return _SENSITIVE.search(key) is not None
    if isinstance(value, Sequence) and value and all(isinstance(each, str) for each in value):
        return _SENSITIVE.search(key) is not None
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and _PASSWORDS.search(key) is not None
    )


def _is_option(value: Any) -> bool:
    """Whether the next argument of a command is a secret: ``["--password", "…"]``."""
    return isinstance(value, str) and _OPTION.fullmatch(value) is not None


def bare(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A Kubernetes object without the places that may hold secrets whatever their names are: values of environment variables, and what kubectl applied.

    The kind Secret keeps its type and the names of its keys only; a ConfigMap loses its binary data, and values whose key has a name like password.
    """
    obj = _without_environment(obj)
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    if obj.get("kind") == "Secret":
        names = {key: metadata[key] for key in ("name", "namespace", "creationTimestamp") if key in metadata}
        keys = sorted({**(obj.get("data") or {}), **(obj.get("stringData") or {})})
        return {"kind": "Secret", "metadata": names, "type": obj.get("type"), "keys": keys}
    if obj.get("kind") == "ConfigMap":
        data = {
            key: REMOVED if _SENSITIVE.search(key) else value
            for key, value in (obj.get("data") or {}).items()
        }
        binary = dict.fromkeys(obj.get("binaryData") or {}, REMOVED)
        obj = {**obj, "data": data, **({"binaryData": binary} if binary else {})}
    return {**obj, "metadata": metadata}


def _without_environment(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: [_bare_variable(each) for each in found]
            if key == "env" and isinstance(found, list)
            else _without_environment(found)
            for key, found in value.items()
            if key != _LAST_APPLIED
        }
    if isinstance(value, list):
        return [_without_environment(each) for each in value]
    return value


def _bare_variable(variable: Any) -> Any:
    if isinstance(variable, Mapping) and "value" in variable:
        return {**variable, "value": REMOVED}
    return variable

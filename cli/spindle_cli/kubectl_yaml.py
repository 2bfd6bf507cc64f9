"""YAML for kubectl, which reads more plain words as numbers and booleans than PyYAML does."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml


class _ForKubectl(yaml.SafeDumper):
    """Quotes what kubectl would read as a number or a boolean, and PyYAML as text: names such as 1e3, 0o7, 08 and y."""


_DIGITS: Final = list("-+.0123456789")
_ForKubectl.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9._]+([eE][-+]?[0-9_]+)?$"), _DIGITS
)
_ForKubectl.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?0_*[oObBxX][0-9a-fA-F_]+$"), _DIGITS
)
_ForKubectl.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))


def document(obj: Mapping[str, Any]) -> str:
    """One object."""
    return str(yaml.dump(dict(obj), Dumper=_ForKubectl, sort_keys=False))


def documents(objects: Iterable[Mapping[str, Any]]) -> str:
    """Several objects, each after ``---``."""
    return "".join(f"---\n{document(obj)}" for obj in objects)

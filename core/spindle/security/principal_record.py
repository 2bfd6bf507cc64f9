"""The principal that a KafkaUser has on record, and names that none may have."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names

# Kubernetes names cannot contain it, and brokers derive principals only from common names of letters, digits and the characters . _ -
GENERATION_MARK: Final = "_"


# Spindle's own principals: nodes and operator are super users. The CRD refuses these names, too, but it may be of another version.
RESERVED_PREFIX: Final = "spindle-"
RESERVED: Final = (names.PRINCIPAL_ADMIN, "ANONYMOUS", "*")  # clients without credentials, and all clients
OAUTH: Final = "oauth"


def is_reserved(name: str) -> bool:
    """Whether the name belongs to a principal of Spindle, so that a KafkaUser never gets credentials for it."""
    return name in RESERVED or name.startswith(RESERVED_PREFIX)


def by_token(user: Mapping[str, Any]) -> str | None:
    """The principal that tokens name, of a KafkaUser that authenticates with them; None for all others."""
    spec = user.get("spec") or {}
    if spec.get("authentication") != OAUTH:
        return None
    return str(spec.get("principal") or user["metadata"]["name"])


def on_record(user: Mapping[str, Any]) -> str | None:
    """The principal in a KafkaUser's status, without ``User:``; None if there is none, or if it cannot belong to this user."""
    name = str(user["metadata"]["name"])
    named = by_token(user)
    if is_reserved(name if named is None else named):
        return None
    told = str((user.get("status") or {}).get("principal") or "").removeprefix("User:")
    if named is not None:
        return told if told == named else None
    head, mark, generation = told.rpartition(GENERATION_MARK)
    if told == name or (mark and head == name and generation.isdecimal()):
        return told
    return None

"""The identity record, a ConfigMap without owner that outlives the KafkaCluster ("no second bootstrap", `docs/safety.md`, rule 13)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.api import names
from spindle.model.ids import is_uuid
from spindle.model.metadata import labels

_CLUSTER_ID, _VOTERS, _CLEARANCES, _QUORUM = "clusterId", "voters", "clearances", "quorum"
_CONTROLLERS = "controllers"
STATIC: Final = "static"
DYNAMIC: Final = "dynamic"


@dataclass(frozen=True)
class ConfiguredVoter:
    """A controller of the initial quorum, or one that joined later."""

    id: int
    directory_id: str


@dataclass(frozen=True)
class NodeIdentity:
    """The content of the identity record.

    Attributes:
        cluster_id: Kafka's cluster id.
        voters: the initial controllers, by node id.
        controllers: the desired controllers, by node id; empty while they are the initial ones.
        clearances: directory id of a controller's disk → ``{"claim", "pvUid", "fsUuid"}`` of the only file system
            that may be formatted with it; an entry is never changed or removed ("no format over the last copy", `docs/safety.md`, rule 1).
        quorum: `STATIC` while Kafka has its voters from the configuration (kraft.version 0, in a cluster that was taken
            over), `DYNAMIC` after its upgrade; None for a cluster that Spindle created.
    """

    cluster_id: str
    voters: tuple[ConfiguredVoter, ...]
    clearances: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    controllers: tuple[ConfiguredVoter, ...] = ()
    quorum: str | None = None

    @property
    def members(self) -> tuple[ConfiguredVoter, ...]:
        """The desired controllers."""
        return self.controllers or self.voters

    @property
    def static(self) -> bool:
        """Whether the configuration must list the voters (``controller.quorum.voters``)."""
        return self.quorum == STATIC


@dataclass(frozen=True)
class IdentityError:
    """The record exists but cannot be used. Nothing may be created or formatted meanwhile."""

    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.problems)


def identity_map(cluster: str, namespace: str, identity: NodeIdentity) -> dict[str, Any]:
    """The ConfigMap of an identity."""
    changed = {
        _CONTROLLERS: voters_text(identity.controllers) if identity.controllers else "",
        _QUORUM: identity.quorum or "",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.identity_map(cluster), "namespace": namespace, "labels": labels(cluster)},
        "data": {
            _CLUSTER_ID: identity.cluster_id,
            _VOTERS: voters_text(identity.voters),
            _CLEARANCES: json.dumps(
                {key: dict(entry) for key, entry in identity.clearances.items()}, sort_keys=True
            ),
            **{key: text for key, text in changed.items() if text},
        },
    }


def voters_text(voters: Sequence[ConfiguredVoter]) -> str:
    """The voters as JSON, in canonical form, for the record and for annotations of claims."""
    return json.dumps(
        [{"id": v.id, "directoryId": v.directory_id} for v in sorted(voters, key=lambda v: v.id)]
    )


def parse_voters(text: str) -> tuple[ConfiguredVoter, ...]:
    """Parse voters from JSON.

    Raises:
        ValueError: with the reason why they are not a valid quorum.
    """
    try:
        voters = tuple(
            ConfiguredVoter(_whole(entry["id"]), entry["directoryId"]) for entry in json.loads(text)
        )
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ValueError("is not a list of id and directoryId") from error
    odd = [
        str(v.directory_id)
        for v in voters
        if not (isinstance(v.directory_id, str) and is_uuid(v.directory_id))
    ]
    if odd:
        raise ValueError(f"has an invalid directoryId: {odd[0]!r}")
    if not voters:
        raise ValueError("has no voter")
    if len({v.id for v in voters}) < len(voters) or len({v.directory_id for v in voters}) < len(voters):
        raise ValueError("lists a voter twice")
    return tuple(sorted(voters, key=lambda v: v.id))


def parse_identity(config_map: Mapping[str, Any]) -> NodeIdentity | IdentityError:
    """Parse the record from its ConfigMap.

    Unknown keys are ignored. If any part is missing or unreadable, the whole record is unusable: with half an identity, a
    second bootstrap would be possible.
    """
    data = config_map.get("data")
    data = data if isinstance(data, Mapping) else {}
    problems: list[str] = []
    cluster_id = data.get(_CLUSTER_ID)
    if not isinstance(cluster_id, str) or not is_uuid(cluster_id):
        problems.append(
            f"{_CLUSTER_ID} is missing"
            if not cluster_id
            else f"{_CLUSTER_ID} {cluster_id!r} is not a valid id"
        )
    voters: tuple[ConfiguredVoter, ...] = ()
    clearances: dict[str, Mapping[str, str]] = {}
    try:
        voters = parse_voters(_text(data, _VOTERS))
    except ValueError as error:
        problems.append(f"{_VOTERS} {error}")
    try:
        clearances = _parse_clearances(_text(data, _CLEARANCES))
    except ValueError as error:
        problems.append(f"{_CLEARANCES} {error}")
    controllers: tuple[ConfiguredVoter, ...] = ()
    try:
        controllers = parse_voters(data[_CONTROLLERS]) if _CONTROLLERS in data else ()
    except ValueError as error:
        problems.append(f"{_CONTROLLERS} {error}")
    if problems:
        return IdentityError(tuple(problems))
    return NodeIdentity(str(cluster_id), voters, clearances, controllers, quorum=data.get(_QUORUM) or None)


def _text(data: Mapping[str, Any], key: str) -> str:
    text = data.get(key)
    if not isinstance(text, str) or not text.strip():
        raise ValueError("is missing")
    return text


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _parse_clearances(text: str) -> dict[str, Mapping[str, str]]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON") from error
    if not isinstance(entries, dict) or not all(
        isinstance(entry, dict) and all(isinstance(v, str) for v in entry.values())
        for entry in entries.values()
    ):
        raise ValueError("is not an object of directory ids with claim, pvUid and fsUuid")
    return {str(key): dict(entry) for key, entry in entries.items()}

"""The identity of a disk: Spindle's identity file at the volume's root, and Kafka's ``meta.properties`` in the log dir."""

import json
from dataclasses import asdict, dataclass
from typing import Final

from spindle.model.dir_list import NO_LIST, DirList, read_list

META_PROPERTIES: Final = "meta.properties"
_META_VERSION: Final = "1"
_LOG_DIRS: Final = "logDirs"


@dataclass(frozen=True)
class Identity:
    """Content of Spindle's identity file: the cluster, node and disk that the disk belongs to."""

    cluster_id: str
    node_id: int
    disk: str
    directory_id: str


@dataclass(frozen=True)
class MetaProperties:
    """Content of Kafka's ``meta.properties``.

    Attributes:
        directory_id: None in a log dir from before Kafka 3.7.
    """

    cluster_id: str
    node_id: int
    directory_id: str | None


def render_identity(identity: Identity, fs_uuid: str | None, log_dirs: DirList = NO_LIST) -> str:
    """The text of the identity file. It contains the file system's UUID for readers only; Spindle reads the UUID from the file system itself.

    ``log_dirs`` is the list of all log dirs of the broker, so that none is forgotten when only this disk is found again.
    """
    fields = asdict(identity)
    document = {
        "clusterId": fields["cluster_id"],
        "nodeId": fields["node_id"],
        "disk": fields["disk"],
        "directoryId": fields["directory_id"],
        "fsUuid": fs_uuid,
        **({_LOG_DIRS: log_dirs.document()} if log_dirs else {}),
    }
    return json.dumps(document, indent=2) + "\n"


def parse_identity(text: str) -> Identity:
    """Parse an identity file.

    Raises:
        ValueError: it is not one of Spindle's, or is truncated.
    """
    try:
        document = json.loads(text)
        return Identity(
            cluster_id=_text(document["clusterId"]),
            node_id=int(document["nodeId"]),
            disk=_text(document["disk"]),
            directory_id=_text(document["directoryId"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from error
    except (OverflowError, RecursionError) as error:  # an infinite number, brackets without end
        raise ValueError("its values are not valid") from error


def parse_log_dirs(text: str) -> DirList:
    """The list of log dirs in an identity file; `NO_LIST` if it has none."""
    try:
        return read_list(json.loads(text).get(_LOG_DIRS))
    except (ValueError, AttributeError, RecursionError):
        return NO_LIST


def render_meta_properties(identity: Identity) -> str:
    """Kafka's ``meta.properties`` for a disk."""
    return (
        f"version={_META_VERSION}\n"
        f"cluster.id={identity.cluster_id}\n"
        f"node.id={identity.node_id}\n"
        f"directory.id={identity.directory_id}\n"
    )


def parse_meta_properties(text: str) -> MetaProperties:
    """Parse a ``meta.properties`` of version 1.

    Raises:
        ValueError: it has another version, or a property is missing.
    """
    values = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            key, _, value = line.partition("=")
            values[key.strip()] = value.strip()
    if values.get("version") != _META_VERSION:
        raise ValueError(f"its version is {values.get('version')}, not {_META_VERSION}")
    try:
        return MetaProperties(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=values.get("directory.id"),
        )
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string in place of {value!r}")
    return value

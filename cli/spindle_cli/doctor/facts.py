"""What the checks of ``spindle doctor`` know, and their findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spindle.api.cluster import KafkaCluster
from spindle_cli.kube import Json


class Level(StrEnum):
    """How bad a finding is."""

    OK = "Ok"
    WARNING = "Warning"
    PROBLEM = "Problem"  # a cluster could not start, or not be applied


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: name of the check, for example ``StorageClass``.
        way_out: what resolves it; empty if nothing is wrong.
    """

    check: str
    level: Level
    message: str
    way_out: str = ""


@dataclass(frozen=True)
class Right:
    """Something that the user may or may not do.

    Attributes:
        needed_for: what the right is needed for, as in "to apply a KafkaCluster".
        vital: whether nothing works without it.
    """

    verb: str
    resource: str
    group: str
    needed_for: str
    vital: bool = False


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A Kubernetes cluster as `spindle_cli.doctor.reading` found it.

    Attributes:
        namespace: the one that the KafkaCluster is, or will be, in.
        program: version of this program.
        kubernetes: version of the API server, for example ``v1.33.1``.
        server_time, own_time: clocks of the API server and of this machine at the same moment, in seconds since the epoch.
        clusters: KafkaClusters to check for: the one in the file, else those of the namespace.
        existing: names of KafkaClusters of the namespace that exist already.
        definitions: CustomResourceDefinitions by name; those that do not exist are absent.
        schemas: the same, as this version of Spindle makes them.
        rights: of this user in the namespace.
        unreadable: what could not be listed, by name of the field, and why.
    """

    namespace: str
    program: str
    kubernetes: str
    server_time: float | None
    own_time: float
    clusters: Sequence[KafkaCluster] = ()
    existing: frozenset[str] = frozenset()
    nodes: Sequence[Json] = ()
    classes: Sequence[Json] = ()
    volumes: Sequence[Json] = ()
    leases: Sequence[Json] = ()
    operators: Sequence[Json] = ()
    agents: Sequence[Json] = ()
    definitions: Mapping[str, Json] = field(default_factory=dict)
    schemas: Mapping[str, Json] = field(default_factory=dict)
    rights: Mapping[Right, bool] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

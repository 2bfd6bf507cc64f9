"""Requests of the previous pass that the API server refused, and the objects that they are about."""

from dataclasses import dataclass
from typing import Final

from spindle.model.actions import (
    Action,
    Apply,
    CertifyAgents,
    CopyCertificates,
    Create,
    CreateTopic,
    Delete,
    Evict,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    MarkDown,
    Patch,
    SetPassword,
    SetPodCondition,
    TurnCa,
)

# Name of the action's class, or WRITE_STATUS, kind and name of the object; the name is empty for the KafkaCluster itself.
Target = tuple[str, str, str]
WRITE_STATUS: Final = "WriteStatus"
CLUSTER: Final = "KafkaCluster"


@dataclass(frozen=True)
class RefusedRequest:
    """One request that the API server answered with an error; no conflict, and no missing object.

    Attributes:
        target: of the action, or of the status write.
        status: HTTP status of the answer.
        message: the server's.
    """

    target: Target
    status: int
    message: str


def target_of(action: Action) -> Target | None:
    """What an action on an object of Kubernetes is about; None for other actions."""
    match action:
        case Create() | Apply():
            about = str(action.object["kind"]), str(action.object["metadata"]["name"])
        case Patch() | Delete():
            about = action.kind, action.name
        case Evict() | SetPodCondition():
            about = "Pod", action.pod
        case IssueCertificate() | KeepPassword() | CopyCertificates():
            about = "Secret", str(action.metadata["name"])
        case IssueCa() | TurnCa() | SetPassword():
            about = "Secret", action.secret
        case CreateTopic() if action.record is not None:
            about = action.record.kind, action.record.name
        case MarkDown():
            about = CLUSTER, ""
        case CertifyAgents():
            about = "ConfigMap", str(action.metadata["name"])
        case _:
            return None
    return (type(action).__name__, *about)

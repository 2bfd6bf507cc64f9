"""Short descriptions of actions, for log lines and for events without a message of their own."""

from spindle.model.actions import (
    Action,
    Apply,
    CertifyAgents,
    CopyCertificates,
    Create,
    Delete,
    Evict,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    MarkDown,
    Patch,
    SetPassword,
    SetPodCondition,
    TryPod,
    TurnCa,
)
from spindle.model.waiting import counted
from spindle_operator.kafka_actions import KAFKA_ACTIONS


def describe(action: Action) -> str:
    """Short description for a log line: ``Create Pod demo-broker-0``."""
    kind = type(action).__name__
    match action:
        case Create() | Apply():
            return f"{kind} {action.object['kind']} {action.object['metadata']['name']}"
        case Patch() | Delete():
            return f"{kind} {action.kind} {action.name}"
        case SetPodCondition():
            return f"set {action.type.split('/')[-1]}={action.status} on {action.pod}"
        case Evict():
            return f"evict {action.pod}"
        case TryPod():
            return f"have Pod {action.object['metadata']['name']} checked"
        case MarkDown():
            marked = ", ".join(str(entry.get("pod")) for entry in action.entries)
            return f"mark pods to be stopped: {marked or 'nothing'}"
        case _:
            known = KAFKA_ACTIONS.get(type(action))
            return _describe_secret(action) if known is None else known.text(action)


def _describe_secret(action: Action) -> str:
    """The same for certificates and passwords."""
    match action:
        case IssueCa():
            return f"create the CA {action.secret}"
        case IssueCertificate():
            return f"issue the certificate {action.metadata['name']}"
        case TurnCa():
            return f"{action.step} the next CA in {action.secret}"
        case KeepPassword() | SetPassword():
            return f"{type(action).__name__} of user {action.user}"
        case CopyCertificates():
            return f"copy certificates of listeners: {', '.join(sorted(action.sources)) or 'none'}"
        case CertifyAgents():
            return f"issue certificates of {counted(len(action.requests), 'agent')}, keep those of {len(action.keep)}"
        case _:
            return type(action).__name__

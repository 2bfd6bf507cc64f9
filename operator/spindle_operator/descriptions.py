"""Short descriptions of actions, for log lines and for events without a message of their own."""

from spindle.model.actions import (
    Action,
    AddVoter,
    AlterUser,
    Apply,
    CertifyAgents,
    Create,
    CreateTopic,
    Delete,
    ElectPreferred,
    ElectUnclean,
    Evict,
    GrantAdmin,
    GrantRebalance,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    MarkDown,
    Patch,
    PlaceReplicas,
    RaiseFeatures,
    Reassign,
    RemoveVoter,
    SetConfigs,
    SetPassword,
    SetPodCondition,
    TrimPartitions,
    Tune,
    TurnCa,
    UnregisterBroker,
)
from spindle.model.waiting import counted


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
        case MarkDown():
            marked = ", ".join(str(entry.get("pod")) for entry in action.entries)
            return f"mark pods to be stopped: {marked or 'nothing'}"
        case IssueCa():
            return f"create the CA {action.secret}"
        case IssueCertificate():
            return f"issue the certificate {action.metadata['name']}"
        case TurnCa():
            return f"{action.step} the next CA in {action.secret}"
        case KeepPassword() | SetPassword() | AlterUser():
            return f"{kind} of user {action.user}"
        case _:
            return _describe_order(action)


def _describe_order(action: Action) -> str:
    """The same for agents, and for requests to Kafka."""
    match action:
        case GrantAdmin() | GrantRebalance():
            return f"create ACLs of the {'admin' if isinstance(action, GrantAdmin) else 'rebalance job'}"
        case CertifyAgents():
            return f"issue certificates of {counted(len(action.requests), 'agent')}, keep those of {len(action.keep)}"
        case ElectPreferred():
            return f"elect preferred leaders of {counted(len(action.partitions), 'partition')}"
        case ElectUnclean():
            return f"elect unclean leaders of {counted(len(action.partitions), 'partition')}"
        case PlaceReplicas():
            return (
                f"choose log dirs for {counted(len(action.placements), 'replica')} on broker {action.broker}"
            )
        case Reassign():
            return f"reassign {counted(len(action.assignments), 'partition')}"
        case CreateTopic():
            return f"create topic {action.topic} with {counted(len(action.assignments), 'partition')}"
        case TrimPartitions():
            return f"delete the oldest records of {counted(len(action.partitions), 'partition')}"
        case _:
            return _describe_setting(action)


def _describe_setting(action: Action) -> str:
    """The same for Kafka's settings."""
    match action:
        case SetConfigs():
            return f"set {', '.join(sorted(action.values))} of {action.target} {action.name}"
        case Tune():
            whom = "all brokers" if action.broker is None else f"broker {action.broker}"
            return f"set {', '.join(sorted(action.values))} of {whom}"
        case UnregisterBroker():
            return f"unregister broker {action.broker}"
        case AddVoter():
            return f"make controller {action.controller} a voter"
        case RemoveVoter():
            return f"remove controller {action.controller} from the quorum"
        case RaiseFeatures():
            return f"raise {', '.join(f'{name} to {level}' for name, level in action.levels.items())}"
        case _:
            return type(action).__name__

"""What a wait means for the conditions ``Ready``, ``Reconciling`` and ``Stalled``: one kind for every reason."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from spindle.model.waiting import Waiting


class WaitKind(StrEnum):
    """What a wait says about the spec.

    Attributes:
        NOTE: the spec is in effect, or the wait is not about it. Changes none of the three conditions.
        WORK: Spindle, Kafka or Kubernetes gets on with it. ``Reconciling``.
        DELAYED: something outside Spindle is missing that often comes by itself. ``Reconciling``; ``Stalled`` after the deadline.
        FAULT: the same, and something is broken. Not ``Ready`` meanwhile.
        USER: only a user's change unblocks it. ``Stalled`` at once, not ``Ready``.
    """

    NOTE = "Note"
    WORK = "Work"
    DELAYED = "Delayed"
    FAULT = "Fault"
    USER = "User"


_START: Final = "StartPod"
_MOVE: Final = "MoveReplicas"
# Actions that do not apply the spec: an entry for one of them does not mean that the spec is not in effect.
_NOT_OF_THE_SPEC: Final = frozenset(
    {
        "AssessDisks",
        "ChangeReplicas",
        "CordonDisk",
        "CreateRebalanceJob",
        "Drain",
        "DropReplica",
        "KeepRights",
        "KeepSpec",
        "MoveLeaders",
        _MOVE,
        "OffloadDisk",
        "PublishSamples",
        "RaiseMetadataVersion",
        "Rebalance",
        "RepairReplica",
        "RestoreReplicas",
        "RevertLastResort",
        "RevokeCertificates",
        "SpreadReplicas",
    }
)
# Actions that wait for a user, whatever the reason.
_BY_USER: Final = frozenset({"AcceptLoss", "ApplySpec", "ChangeVersion", "RunVersion"})

REASONS: Final[Mapping[WaitKind, frozenset[str]]] = {
    WaitKind.USER: frozenset(
        {
            "AllDisksLost",
            "BrokerNotFound",
            "CaMismatch",
            "CaMissing",
            "CaSecretInvalid",
            "ClaimClusterIdMismatch",
            "ClaimDirectoryIdMismatch",
            "ClassNotLocal",
            "ClusterIdConflict",
            "ConfigNeedsMoreBrokers",
            "DirectoryIdAlreadyUsed",
            "DiskContentLost",
            "DiskUnusable",
            "DowngradeNotSupported",
            "EvenControllerCount",
            "ExpansionNotSupported",
            "IdentityUnreadable",
            "InsufficientBrokers",
            "InsufficientRacks",
            "InsufficientSpaceForDiskRemoval",
            "InsufficientSpaceToScaleIn",
            "InsufficientVolumesOnNode",
            "InvalidConfig",
            "InvalidPodTemplate",
            "JournalLost",
            "JournalUnreadable",
            "LastReplicaAtRisk",
            "ListenerCertificateInvalid",
            "NameConflict",
            "NodeLost",
            "PodTemplateRefused",
            "PoolNotFound",
            "ProgressDeadlineExceeded",
            "RestartDeadlock",
            "SpecNotAllowed",
            "StaticQuorum",
            "StoppedBrokerNeeded",
            "UnknownPoolClaims",
            "UnknownVoter",
            "VersionNotSupported",
            "VolumeNotOnNode",
            "VolumeUnavailable",
            "VoterLogLost",
        }
    ),
    WaitKind.FAULT: frozenset(
        {
            "AgentTooOld",
            "AnotherBrokerDown",
            "BrokerOutOfSync",
            "CorrelatedDiskFailures",
            "CorrelatedDiskStalls",
            "CrashLooping",
            "DiskStillServes",
            "DisksFull",
            "ImagePullFailed",
            "InspectionFailed",
            "AddedContainerFailed",
            "KafkaCrashed",
            "LastReplicaServed",
            "NoQuorumLeader",
            "NodeNotReady",
            "NodeUnreachable",
            "OnlyInSyncReplica",
            "PreflightFailed",
            "ProcessHung",
            "QuorumMajorityMissing",
            "RolloutStalled",
            "StartDeadlineExceeded",
            "StopDeadlineExceeded",
        }
    ),
    WaitKind.DELAYED: frozenset(
        {
            "AddressPending",
            "AgentCertificatesUnknown",
            "CannotRead",
            "ClaimBeingDeleted",
            "ClaimNameConflict",
            "GatewayApiMissing",
            "InsufficientNodes",
            "InsufficientVolumes",
            "NoStorageClass",
            "NodeInUse",
            "NodeStillReachable",
            "NodeUnknown",
            "NodesUnknown",
            "OrphanedObject",
            "RequestRefused",
            "RouteNotAccepted",
            "RoutesUnknown",
            "Unschedulable",
            "TopicsUnknown",
            "UsersUnknown",
            "VolumeNotBound",
        }
    ),
    WaitKind.WORK: frozenset(
        {
            "BrokerStillRegistered",
            "CaReplaced",
            "CancellationRejected",
            "ControllersJoining",
            "ControllersNotReady",
            "DependenciesMissing",
            "DiskExcluded",
            "DiskInspectionPending",
            "DiskOffline",
            "DynamicConfigNotReverted",
            "DynamicConfigRejected",
            "EligibleLeaderReplicas",
            "ElrUnknown",
            "HangUnconfirmed",
            "IntraBrokerMovesInProgress",
            "KafkaUnknown",
            "LeadershipMoving",
            "ListenerCertificateSpreading",
            "LoadingLogs",
            "LogDirsUnknown",
            "ManyChanges",
            "MinIsrUnknown",
            "MovesBlocked",
            "PlanPending",
            "PodTemplateUnchecked",
            "PodsTerminating",
            "QuorumChanging",
            "QuorumPending",
            "QuorumStatic",
            "QuorumUnknown",
            "ReassignmentInProgress",
            "ReplicaRestorePending",
            "ReplicasOnBroker",
            "ReplicasOnDisk",
            "RestartPending",
            "RolloutInProgress",
            "ThrottlesReverting",
            "VolumeExpansionInProgress",
            "WouldBeUnderMinIsr",
            "WouldLoseQuorum",
        }
    ),
    WaitKind.NOTE: frozenset(
        {
            # Something of the cluster could be better, or is a user's own choice.
            "AgentNotReporting",
            "AgentStarved",
            "AllowedForCompatibility",
            "BrokerRecordRetained",
            "BrokersWithoutRack",
            "ClaimLost",
            "ClaimMissing",
            "ConfigOverridden",
            "CordonNotSupported",
            "EvictionDeferred",
            "JobUnreadable",
            "ListenerCertificateExpiring",
            "ListenerCertificateLacksHosts",
            "MixedRacks",
            "NoZoneLabels",
            "NodesWithoutZone",
            "OrphanedPod",
            "ProposalsUnknown",
            "RackSpreadViolated",
            "ReplicasNotFound",
            "SingleZone",
            "Soaking",
            "TopicNotManaged",
            "UncleanElectionsEnabled",
            "UnevenSpread",
            "UserCertificatesValidForServers",
            "WaitingForBrokers",
            "ZoneChanged",
            "ZoneWithoutBrokers",
            # Disks and replicas: the conditions DisksHealthy, DiskPressure, DataAtRisk and RacksSatisfied report these.
            "BlockedByOfflineLogDir",
            "CatchUpInProgress",
            "CorruptSegment",
            "EmptyReplicaMayLead",
            "ExternalReassignment",
            "InsufficientSpace",
            "InsufficientSpaceOnBroker",
            "InsufficientSpaceToRestore",
            "JournalDeleted",
            "JournalFull",
            "JournalNotFound",
            "LastDisk",
            "LogDirNotSelectable",
            "MoveBackOff",
            "MoveCancelled",
            "MoveFailed",
            "MoveObsolete",
            "MovedToOtherDisk",
            "NoLeader",
            "NoMoveTarget",
            "NoReplicaToDrop",
            "RepairDeferred",
            "ReplacementNeeded",
            "ReplicaRemovalPending",
            "ReplicaReturning",
            "ReplicasBelowMinIsr",
            "ReplicasMoving",
            "ReplicasNotPlaceable",
            "ReplicationStalled",
            "RetiredDiskReinserted",
            "SettingsUnknown",
            "SourceDown",
            "TargetDiskFilling",
            "TargetDiskFull",
            "TargetLost",
            "TargetUnavailable",
            "TargetUnusable",
            "TopicNameTooLong",
            "UnderReplicated",
            "UnexpectedDisk",
            "WouldReduceRackSpread",
            # Only the waits of AcceptLoss have these.
            "AcceptanceAlreadyUsed",
            "AcceptanceOutdated",
            "OtherDiskMayHoldReplica",
            "SurvivorsUnavailable",
        }
    ),
}
_BY_REASON: Final = {reason: kind for kind, reasons in REASONS.items() for reason in reasons}


def kind_of(wait: Waiting) -> WaitKind:
    """The kind of a wait, by its action and its reason. A quiet one needs no user."""
    if wait.action in _BY_USER:
        return WaitKind.USER
    found = _BY_REASON.get(wait.reason)
    if wait.action in _NOT_OF_THE_SPEC:
        # Without its record of moves Spindle moves nothing, for the spec either.
        return WaitKind.USER if found is WaitKind.USER and wait.action == _MOVE else WaitKind.NOTE
    if found is None:
        # The kubelet has reasons of its own for a container that it cannot start.
        return WaitKind.FAULT if wait.action == _START else WaitKind.WORK
    return WaitKind.WORK if found is WaitKind.USER and wait.quiet else found

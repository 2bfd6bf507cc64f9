"""Reasons of events about actions that failed: the name of the action, with ``Failed``."""

from typing import Final

from spindle.reasons.reason import Reason, Section

_RETRIED: Final = "nothing: Spindle retries it; if it keeps failing, the message says why"

_WHAT: Final = {
    "Create": "creating an object",
    "Apply": "applying an object",
    "Patch": "changing an object",
    "SetPodCondition": "setting the readiness gate of a pod",
    "Delete": "deleting an object",
    "MarkDown": "recording that a pod is about to be restarted",
    "Evict": "evicting a pod, for example because a PodDisruptionBudget refused it",
    "IssueCa": "creating the certificate authority",
    "TurnCa": "a step of the replacement of the certificate authority",
    "IssueCertificate": "issuing the certificate of a node or a user",
    "CertifyAgents": "issuing certificates of agents",
    "KeepPassword": "writing the Secret with the password of a user",
    "SetPassword": "setting the password of a user in Kafka",
    "AlterUser": "changing ACLs or quotas of a user in Kafka",
    "GrantAdmin": "giving the administrator's user its rights in Kafka",
    "GrantRebalance": "giving the rebalance job its rights in Kafka",
    "ElectPreferred": "electing preferred leaders",
    "ElectUnclean": "an unclean leader election",
    "PlaceReplicas": "choosing log dirs for replicas",
    "Reassign": "starting or cancelling a reassignment",
    "SetConfigs": "setting topic or broker settings, for example throttles",
    "RaiseFeatures": "raising `metadata.version` or `kraft.version`",
    "UnregisterBroker": "unregistering a broker",
    "AddVoter": "adding a controller to the quorum",
    "RemoveVoter": "removing a controller from the quorum",
    "Tune": "applying a setting without a restart; the message has Kafka's error",
    "CreateTopic": "creating the topic for samples",
    "TrimPartitions": "deleting the oldest records of partitions",
}

SECTIONS = (
    Section(
        "Failed actions",
        "A warning event for each action that the API server or Kafka rejected, or that ran into an error.",
        tuple(
            Reason(f"{action}Failed", f"this action failed: {what}", _RETRIED)
            for action, what in _WHAT.items()
        ),
    ),
)

"""Errors that end a run, each with the reason for the KafkaCluster's condition."""

from typing import Final

CREDENTIALS: Final = "CredentialsUnreadable"
KAFKA: Final = "KafkaUnreachable"
KUBERNETES: Final = "KubernetesUnreachable"
REFUSED: Final = "KubernetesRefused"
NO_CLUSTER: Final = "NoSuchCluster"
RECORD: Final = "RecordUnreadable"
SAMPLES: Final = "SamplesUnreadable"
ENGINE: Final = "EngineFailed"
ROLLUP: Final = "RollupFailed"
INTERRUPTED: Final = "Interrupted"
UNEXPECTED: Final = "RunFailed"


class RunError(Exception):
    """A run cannot continue; the message says why and how to resolve it.

    Attributes:
        reason: reason of the condition, in CamelCase.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

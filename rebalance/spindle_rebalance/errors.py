"""What can end a run, each with the word that the KafkaCluster's condition gets."""

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
    """A run that cannot go on; the message is for a person, and says what would help.

    Attributes:
        reason: one word in CamelCase.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

"""Single steps of a change to the quorum. Each is one write, so after an interruption `next_step` continues from the current state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AdmitControllers:
    """Record new controllers, so that they start and read the metadata log as observers."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class AddVoterStep:
    """Make a caught-up observer a voter (AddRaftVoter)."""

    id: int
    directory_id: str


@dataclass(frozen=True)
class RemoveVoterStep:
    """Remove a voter from the quorum (RemoveRaftVoter).

    Attributes:
        why: reason as a clause: "its disk is blank".
    """

    id: int
    directory_id: str
    why: str


@dataclass(frozen=True)
class DeleteController:
    """Remove the record of a controller that is not a voter; its pod is deleted then."""

    id: int


@dataclass(frozen=True)
class RecreateController:
    """Record a controller that lost its disk, and is no longer a voter, with a new directory id."""

    id: int


@dataclass(frozen=True)
class ReaddVoter:
    """Record the directory id that is on a controller's claim and that the quorum knows."""

    id: int
    directory_id: str


Step = AdmitControllers | AddVoterStep | RemoveVoterStep | DeleteController | RecreateController | ReaddVoter

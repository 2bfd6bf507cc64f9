"""What can be done to a quorum in one go. Each is one write, so an interruption leaves a state that `next_step` goes on from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AdmitControllers:
    """Put new controllers on record, so that they start and read the metadata log as observers."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class AddVoterStep:
    """Make an observer that has caught up a voter (AddRaftVoter)."""

    id: int
    directory_id: str


@dataclass(frozen=True)
class RemoveVoterStep:
    """Take a voter out of the quorum (RemoveRaftVoter).

    Attributes:
        why: as a clause: "its disk is blank".
    """

    id: int
    directory_id: str
    why: str


@dataclass(frozen=True)
class DeleteController:
    """Take a controller that is no voter off the record; its pod goes then."""

    id: int


@dataclass(frozen=True)
class RecreateController:
    """Put a controller that lost its disk, and is no voter any more, on record under a new directory id."""

    id: int


@dataclass(frozen=True)
class ReaddVoter:
    """Put on record what a controller's claim carries and the quorum knows it by."""

    id: int
    directory_id: str


Step = AdmitControllers | AddVoterStep | RemoveVoterStep | DeleteController | RecreateController | ReaddVoter

"""The next single step from the current quorum to the desired one.

Spindle's record says which controllers there should be; Kafka says which of them are voters. The leader shows a change before it is
committed, and a change may be lost with the leader that started it: nothing here relies on having seen a change once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.controllers.quorum_steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
    Step,
)
from spindle.model.quorum_sizes import SIZES
from spindle.model.view import Quorum, Voter
from spindle.model.waiting import Waiting, counted, some

NO_DIRECTORY: Final = (
    "AAAAAAAAAAAAAAAAAAAAAA"  # of every voter of a static quorum, which has no directory ids
)
_RULE: Final = 2


@dataclass(frozen=True)
class Member:
    """A recorded controller.

    Attributes:
        up: whether its Kafka process runs and is not being taken down.
        lost: why the data on its disk is permanently lost, as a clause; empty if it is not known to be.
    """

    id: int
    directory_id: str
    up: bool
    lost: str = ""


def next_step(
    quorum: Quorum | None,
    members: Sequence[Member],
    wanted: int,
    *,
    carried: Mapping[int, str],
) -> Step | Waiting | None:
    """The next step; a refusal if a step is needed but must wait; None if the quorum is as desired.

    After each change of the voters, a majority of the new voters runs and is caught up, because they commit the change (KIP-853,
    RemoveVoterHandler): of two voters, one is removed by the vote of the other. A voter is removed by force only when its disk is lost and
    the others are a majority both with and without it. The quorum goes from an odd to an even number of voters only when all of them are
    healthy and the next one is ready, too: two voters tolerate no failure, just like one, but there are twice as many that can fail.

    Args:
        quorum: None if it did not answer.
        members: the recorded controllers.
        wanted: desired number of controllers.
        carried: node id → directory id on the claim of a controller, whether or not it is recorded.
    """
    if wanted not in SIZES:
        return _uneven(wanted)
    if (blind := _blind(quorum)) is not None or quorum is None:
        return blind if len(members) != wanted or any(member.lost for member in members) else None
    look = _QuorumView(quorum, {member.id: member for member in members}, wanted, carried)
    questions: tuple[Callable[[], Step | Waiting | None], ...] = (
        look.static,
        look.strangers,
        look.idle,
        look.lost,
        look.surplus,
        look.missing,
        look.joining,
    )
    return next((found for ask in questions if (found := ask()) is not None), None)


@dataclass(frozen=True)
class _QuorumView:
    quorum: Quorum
    members: Mapping[int, Member]
    wanted: int
    carried: Mapping[int, str]

    @property
    def voters(self) -> Mapping[int, Voter]:
        return {voter.id: voter for voter in self.quorum.voters}

    @property
    def well(self) -> frozenset[int]:
        """Voters that run, stay, and are caught up."""
        return frozenset(v.id for v in self.quorum.voters if v.caught_up and self._up(v.id))

    def _up(self, node_id: int) -> bool:
        return node_id in self.members and self.members[node_id].up

    def _is_voter(self, member: Member) -> bool:
        voter = self.voters.get(member.id)
        return voter is not None and voter.directory_id == member.directory_id

    def _surplus(self) -> list[Member]:
        """Surplus controllers, the highest id first."""
        return [self.members[node_id] for node_id in sorted(self.members)[: self.wanted - 1 : -1]]

    def static(self) -> Waiting | None:
        """A static quorum has a fixed list of voters."""
        if any(voter.directory_id != NO_DIRECTORY for voter in self.quorum.voters):
            return None
        if len(self.members) == self.wanted and not any(member.lost for member in self.members.values()):
            return None
        return Waiting.refused(
            rule=None,
            reason="StaticQuorum",
            message="Spindle cannot change the controllers, because they are a static quorum (kraft.version 0), whose voters cannot change.",
            unblocked_by="Raise the feature kraft.version to 1 (kafka-features.sh upgrade --feature kraft.version=1), "
            f"or set controllers.replicas back to {len(self.members)}.",
        )

    def strangers(self) -> Step | Waiting | None:
        """Voters that are not recorded, or are recorded with another disk."""
        for voter in self.quorum.voters:
            member = self.members.get(voter.id)
            if voter.directory_id == NO_DIRECTORY or (member and member.directory_id == voter.directory_id):
                continue
            if self.carried.get(voter.id) == voter.directory_id:
                return ReaddVoter(voter.id, voter.directory_id)
            if member is None or voter.caught_up is not False:
                return _stranger(voter)
            return self._forced(voter, "its disk was replaced")
        return None

    def idle(self) -> Step | None:
        """Surplus controllers that are not voters."""
        return next((DeleteController(m.id) for m in self._surplus() if not self._is_voter(m)), None)

    def lost(self) -> Step | Waiting | None:
        """Controllers whose disk is lost: removed from the quorum first, then recorded with a new directory id."""
        for member in self.members.values():
            if not member.lost:
                continue
            if not self._is_voter(member):
                return RecreateController(member.id)
            if self.voters[member.id].caught_up is not True:  # a voter that is caught up has its log
                return self._forced(self.voters[member.id], member.lost)
        return None

    def surplus(self) -> Step | Waiting | None:
        """Surplus voters: those that are down first, then the highest ids, the leader last."""
        too_many = self._surplus()
        if not too_many or len(self.voters) <= self.wanted:
            return None
        well, leader = self.well, self.quorum.leader
        for member in sorted(too_many, key=lambda m: (m.id == leader, m.id in well)):
            # If the leader stopped with its own removal only in its own log, no other voter could be elected.
            needed = self.voters.keys() if member.id == leader else self.voters.keys() - {member.id}
            if needed <= well:
                return RemoveVoterStep(
                    member.id, member.directory_id, f"controllers.replicas is {self.wanted}"
                )
        return self._unwell(too_many)

    def missing(self) -> Step | None:
        """Controllers that are not recorded yet, all at once: they start and catch up in parallel."""
        short = self.wanted - len(self.members)
        ids = [names.controller_id(index) for index in range(self.wanted)]
        fresh = [node_id for node_id in ids if node_id not in self.members][: max(0, short)]
        return AdmitControllers(tuple(fresh)) if fresh else None

    def joining(self) -> Step | Waiting | None:
        """Recorded controllers that are not voters yet."""
        if all(voter.directory_id == NO_DIRECTORY for voter in self.quorum.voters):
            return None
        pending = [member for member in self.members.values() if not self._is_voter(member)]
        caught_up = {(o.id, o.directory_id) for o in self.quorum.observers if o.caught_up}
        for member in pending:  # a disk whose loss was accepted is back before it was replaced
            before = self.carried.get(member.id)
            if before not in (None, member.directory_id) and (member.id, before) in caught_up:
                return ReaddVoter(member.id, str(before))
        ready = [m for m in pending if m.up and (m.id, m.directory_id) in caught_up]
        together = 2 if len(self.voters) % 2 and len(pending) > 1 else 1
        if len(ready) < min(together, len(pending)):
            return self._awaited([m for m in pending if m not in ready])
        for member in ready:
            if self._may_grow(member):
                return AddVoterStep(member.id, member.directory_id)
        return self._unwell(ready) if ready else None

    def _may_grow(self, member: Member) -> bool:
        """Whether a voter may be added now. To a quorum of odd size, only while all voters are healthy.

        A quorum of even size lacks a voter. Adding one that is caught up restores its fault tolerance, even if others are down.
        """
        if len(self.voters) % 2:
            return self.voters.keys() <= self.well
        return _majority(self.well | {member.id}, self.voters.keys() | {member.id})

    def _forced(self, voter: Voter, why: str) -> Step | Waiting:
        """Remove a voter that can no longer vote, if the others have a majority before and after that."""
        rest = self.voters.keys() - {voter.id}
        well = self.well - {voter.id}
        if _majority(well, self.voters.keys()) and _majority(well, rest):
            return RemoveVoterStep(voter.id, voter.directory_id, why)
        missing = [str(node_id) for node_id in sorted(rest - well)]
        return Waiting.refused(
            rule=_RULE,
            reason="QuorumMajorityMissing",
            message=f"Controller {voter.id} must be replaced ({why}), but the other controllers that run and are caught up are not a majority: "
            f"{len(well)} of {counted(len(self.voters), 'voter')}{f' (missing: {some(missing)})' if missing else ''}.",
            unblocked_by=f"Bring the other controllers back, or put the disk of controller {voter.id} back. Spindle formats nothing before that.",
            objects=tuple(missing),
        )

    def _unwell(self, changing: Sequence[Member]) -> Waiting:
        missing = sorted(self.voters.keys() - self.well)
        ids = [str(member.id) for member in sorted(changing, key=lambda m: m.id)]
        return Waiting.refused(
            rule=_RULE,
            reason="ControllersNotReady",
            message=f"The change of the quorum ({_named(ids)}) waits, because {_named([str(i) for i in missing])} "
            f"{'is' if len(missing) == 1 else 'are'} down, lagging or about to restart.",
            unblocked_by=f"Bring {_named([str(i) for i in missing])} back: Spindle continues when all voters run and have caught up with the leader.",
            objects=tuple(str(i) for i in missing),
        )

    def _awaited(self, pending: Sequence[Member]) -> Waiting:
        ids = [str(member.id) for member in pending]
        return Waiting.refused(
            rule=None,
            reason="ControllersJoining",
            message=f"{_named(ids).capitalize()} {'is' if len(ids) == 1 else 'are'} starting and reading the metadata log before joining the quorum.",
            unblocked_by="Nothing to do: Spindle continues when they are caught up. If one does not start, its pod shows the cause.",
            objects=tuple(ids),
        )


def _named(ids: Sequence[str]) -> str:
    return f"{'controller' if len(ids) == 1 else 'controllers'} {some(ids)}"


def _majority(well: Collection[int], voters: Collection[int]) -> bool:
    return len(set(well) & set(voters)) > len(voters) // 2


def _blind(quorum: Quorum | None) -> Waiting | None:
    if quorum is not None and quorum.leader >= 0:
        return None
    unknown = quorum is None
    return Waiting.refused(
        rule=_RULE,
        reason="QuorumUnknown" if unknown else "NoQuorumLeader",
        message="Spindle does not change the controllers, because their quorum "
        + ("did not answer." if unknown else "has no leader."),
        unblocked_by="Bring a majority of the controllers back: Spindle continues when the quorum answers and has a leader.",
    )


def _uneven(wanted: int) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="EvenControllerCount",
        message=f"controllers.replicas is {wanted}, but a quorum with an even number of voters tolerates no more failures than one with one "
        "voter fewer.",
        unblocked_by="Set controllers.replicas to 1, 3 or 5.",
    )


def _stranger(voter: Voter) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="UnknownVoter",
        message=f"The quorum has a voter {voter.id} with directory id {voter.directory_id} that Spindle did not create.",
        unblocked_by="If it is not needed, remove it: kafka-metadata-quorum.sh remove-controller "
        f"--controller-id {voter.id} --controller-directory-id {voter.directory_id}.",
        objects=(str(voter.id),),
    )

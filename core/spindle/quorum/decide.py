"""The next single step from the quorum that there is to the one that is wanted.

What is on record says who is to be a controller; Kafka says who is a voter. The leader shows a change before it is committed, and a change
may be taken back with the leader that began it: nothing here rests on a change having been seen once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spindle.cluster import names
from spindle.cluster.view import Quorum, Voter
from spindle.cluster.waiting import Waiting, some
from spindle.quorum.steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
    Step,
)

SIZES: Final = (1, 3, 5)
NO_DIRECTORY: Final = (
    "AAAAAAAAAAAAAAAAAAAAAA"  # of every voter of a static quorum, which has no directory ids
)
_RULE: Final = 2


@dataclass(frozen=True)
class Member:
    """A controller on record.

    Attributes:
        up: whether its Kafka runs, and nobody is about to take it down.
        lost: why what was on its disk is gone for good, as a clause; empty while that is not known.
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
    """What to do next; a refusal where something ought to be done and must wait; None where all is as it should be.

    After each change of the voters a majority of those that there are then runs and has caught up. It is they who commit it (KIP-853,
    RemoveVoterHandler): one of two leaves by the word of the other. A voter is taken out against its will only when its disk is
    lost, and the others are a majority with it as without it. From an odd number of voters to an even one it goes only when all
    of them are well and the next one is ready, too: two voters bear no failure, as one does, and there are twice as many to fail.

    Args:
        quorum: None if it could not be asked.
        members: the controllers on record.
        wanted: how many there are to be.
        carried: node id → directory id that the claim of a controller carries, whether or not it is on record.
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
        """Voters that run, stay, and have caught up."""
        return frozenset(v.id for v in self.quorum.voters if v.caught_up and self._up(v.id))

    def _up(self, node_id: int) -> bool:
        return node_id in self.members and self.members[node_id].up

    def _is_voter(self, member: Member) -> bool:
        voter = self.voters.get(member.id)
        return voter is not None and voter.directory_id == member.directory_id

    def _surplus(self) -> list[Member]:
        """Those that are too many, the highest id first."""
        return [self.members[node_id] for node_id in sorted(self.members)[: self.wanted - 1 : -1]]

    def static(self) -> Waiting | None:
        """A quorum of the old kind has a fixed list of voters."""
        if any(voter.directory_id != NO_DIRECTORY for voter in self.quorum.voters):
            return None
        if len(self.members) == self.wanted and not any(member.lost for member in self.members.values()):
            return None
        return Waiting.refused(
            rule=None,
            reason="StaticQuorum",
            message="The controllers are a static quorum (kraft.version 0), whose voters cannot change.",
            unblocked_by="Raise the feature kraft.version to 1 (kafka-features.sh upgrade --feature kraft.version=1), "
            f"or set controllers.replicas back to {len(self.members)}.",
        )

    def strangers(self) -> Step | Waiting | None:
        """Voters that the record does not know, or knows by another disk."""
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
        """Controllers that are too many and no voters."""
        return next((DeleteController(m.id) for m in self._surplus() if not self._is_voter(m)), None)

    def lost(self) -> Step | Waiting | None:
        """Controllers whose disk is gone: out of the quorum first, then on record under a new directory id."""
        for member in self.members.values():
            if not member.lost:
                continue
            if not self._is_voter(member):
                return RecreateController(member.id)
            if self.voters[member.id].caught_up is not True:  # who keeps up has its log
                return self._forced(self.voters[member.id], member.lost)
        return None

    def surplus(self) -> Step | Waiting | None:
        """Voters that are too many, while so many vote: the highest ids, the dead ones before, the leader after all others."""
        too_many = self._surplus()
        if not too_many or len(self.voters) <= self.wanted:
            return None
        well, leader = self.well, self.quorum.leader
        for member in sorted(too_many, key=lambda m: (m.id == leader, m.id in well)):
            # A leader that goes down with its own removal in no log but its own would leave nobody behind who can be elected.
            needed = self.voters.keys() if member.id == leader else self.voters.keys() - {member.id}
            if needed <= well:
                return RemoveVoterStep(
                    member.id, member.directory_id, f"{self.wanted} controllers are wanted"
                )
        return self._unwell(too_many)

    def missing(self) -> Step | None:
        """Controllers that are not on record yet, all at once: they start and read side by side."""
        short = self.wanted - len(self.members)
        ids = [names.controller_id(index) for index in range(self.wanted)]
        fresh = [node_id for node_id in ids if node_id not in self.members][: max(0, short)]
        return AdmitControllers(tuple(fresh)) if fresh else None

    def joining(self) -> Step | Waiting | None:
        """Controllers on record that are no voters yet."""
        if all(voter.directory_id == NO_DIRECTORY for voter in self.quorum.voters):
            return None
        pending = [member for member in self.members.values() if not self._is_voter(member)]
        caught_up = {(o.id, o.directory_id) for o in self.quorum.observers if o.caught_up}
        for member in pending:  # a disk that was given up is back, before anything took its place
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
        """Whether a voter may be added now: an odd quorum grows only as a whole.

        An even one lacks a voter. One more that has caught up brings it back what it can bear, whoever else is away.
        """
        if len(self.voters) % 2:
            return self.voters.keys() <= self.well
        return _majority(self.well | {member.id}, self.voters.keys() | {member.id})

    def _forced(self, voter: Voter, why: str) -> Step | Waiting:
        """Take out a voter that can vote no more, if the others can decide it, now and afterwards."""
        rest = self.voters.keys() - {voter.id}
        well = self.well - {voter.id}
        if _majority(well, self.voters.keys()) and _majority(well, rest):
            return RemoveVoterStep(voter.id, voter.directory_id, why)
        missing = [str(node_id) for node_id in sorted(rest - well)]
        return Waiting.refused(
            rule=_RULE,
            reason="QuorumMajorityMissing",
            message=f"Controller {voter.id} is to be replaced ({why}), and the others that run and have caught up are no majority: "
            f"{len(well)} of {len(self.voters)} voters{f' ({some(missing)} missing)' if missing else ''}.",
            unblocked_by="The other controllers run again, or its own disk comes back. Nothing is formatted before.",
            objects=tuple(missing),
        )

    def _unwell(self, changing: Sequence[Member]) -> Waiting:
        missing = sorted(self.voters.keys() - self.well)
        ids = [str(member.id) for member in sorted(changing, key=lambda m: m.id)]
        return Waiting.refused(
            rule=_RULE,
            reason="ControllersNotReady",
            message=f"The quorum does not change (controllers {some(ids)}) while controllers "
            f"{some([str(i) for i in missing])} do not run, lag, or are about to restart.",
            unblocked_by="They run and have caught up with the leader.",
            objects=tuple(str(i) for i in missing),
        )

    def _awaited(self, pending: Sequence[Member]) -> Waiting:
        ids = [str(member.id) for member in pending]
        return Waiting.refused(
            rule=None,
            reason="ControllersJoining",
            message=f"Controllers {some(ids)} are to join the quorum: they start, and read the metadata log to its end.",
            unblocked_by="They have caught up. If one does not start, its pod says why.",
            objects=tuple(ids),
        )


def _majority(well: Collection[int], voters: Collection[int]) -> bool:
    return len(set(well) & set(voters)) > len(voters) // 2


def _blind(quorum: Quorum | None) -> Waiting | None:
    if quorum is not None and quorum.leader >= 0:
        return None
    unknown = quorum is None
    return Waiting.refused(
        rule=_RULE,
        reason="QuorumUnknown" if unknown else "NoQuorumLeader",
        message="The controllers are not changed: their quorum "
        + ("could not be asked." if unknown else "has no leader."),
        unblocked_by="A majority of the controllers runs, and answers.",
    )


def _uneven(wanted: int) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="EvenControllerCount",
        message=f"{wanted} controllers are wanted. A quorum of an even number bears no more failures than one of one less.",
        unblocked_by="Set controllers.replicas to 1, 3 or 5.",
    )


def _stranger(voter: Voter) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="UnknownVoter",
        message=f"The quorum has a voter {voter.id} with directory id {voter.directory_id} that Spindle did not make.",
        unblocked_by="If nobody needs it, take it out: kafka-metadata-quorum.sh remove-controller "
        f"--controller-id {voter.id} --controller-directory-id {voter.directory_id}.",
        objects=(str(voter.id),),
    )

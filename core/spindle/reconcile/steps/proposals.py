"""KafkaRebalances: each goes one step on in its life, and of the one that is carried out the executor gets what may begin now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.cluster.refusal import counted, some
from spindle.disks.lifecycle import DiskState
from spindle.moves.look import Key, Look
from spindle.proposals.approval import Approval, approval
from spindle.proposals.duration import AWAY, allowed, carried_out, too_long
from spindle.proposals.life import Facts, Trouble, Turn, turn
from spindle.proposals.marks import DONE, DROPPED, MOVING, OVER, WAITING
from spindle.proposals.proposal import REASON, Phase, Proposal, read_proposal
from spindle.proposals.waves import PATIENCE, Wave, look_over
from spindle.proposals.windows import Opening, opening
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.events import Event
from spindle.reconcile.proposal_status import Standing, proposal_status
from spindle.reconcile.state import State
from spindle.reconcile.steps.moves import Wants, limits_of
from spindle.reconcile.times import seconds
from spindle.reconcile.ward import Ward

_ACTION: Final = "Rebalance"
_TROUBLES: Final = ("DisksFirst", "UnderMinIsr")
_KEPT: Final = 10  # proposals that are over
_GOOD: Final = frozenset((Phase.APPROVED, Phase.EXECUTING, Phase.DONE))


@dataclass(frozen=True)
class Proposed:
    """What comes of all proposals.

    Attributes:
        wants: for the executor of moves.
        statuses: KafkaRebalance → its status as it should read now.
    """

    wants: Wants = field(default_factory=Wants)
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def settle_proposals(ward: Ward, draft: Draft, others: Wants) -> Proposed:
    """Decide about every proposal of the cluster.

    Args:
        ward: what is known of the disks; their lives are settled.
        draft: of the pass.
        others: what healing and full disks want: it comes first.
    """
    state = ward.state
    if "kafkarebalances" in state.snap.unknown:
        # What is in motion goes on to its end; whether anybody still wants it is not known (rule 8).
        draft.wait(_blind(state))
        return Proposed()
    found = sorted((read_proposal(raw) for raw in state.snap.rebalances), key=lambda p: p.age)
    proposals = [proposal for proposal in found if not proposal.deleting]
    _forget(state, draft, proposals)
    desk = _Desk(ward, others, proposals)
    statuses: dict[str, Mapping[str, Any]] = {}
    for proposal in proposals:
        if proposal.phase.over:
            continue
        made = desk.settle(proposal)
        statuses[proposal.name] = made
        _tell(draft, proposal, made)
    draft.wait(*desk.waits)
    return Proposed(desk.wants(), statuses)


class _Desk:
    """All proposals of a cluster, while they are worked through."""

    def __init__(self, ward: Ward, others: Wants, proposals: Sequence[Proposal]) -> None:
        state = ward.state
        self.ward, self.state, self.others, self.proposals = ward, state, others, proposals
        self.rules = state.spec.rebalance
        self.limits = limits_of(state)
        self.window: Opening = opening(self.rules.windows, state.now)
        self.trouble = _trouble(ward)
        self.look = Look(ward.view, others.closed)
        self.waits: list[Wait] = []
        self.wave: Wave | None = None
        self.go = False
        self.leaders: dict[Key, int] = {}

    def settle(self, proposal: Proposal) -> Mapping[str, Any]:
        """One proposal: what it is next, and its status."""
        executing = proposal.phase is Phase.EXECUTING
        by = self._approval(proposal)
        wave = self._look_over(proposal) if executing else None
        now = turn(self._facts(proposal, by, wave))
        if wave is not None and now.phase is Phase.EXECUTING:
            self._carry_on(proposal, wave, go=now.reason == "Executing")
        if now.phase in (Phase.APPROVED, Phase.EXECUTING):
            # Nothing in Kubernetes tells when it can go on, so the loop has to go on looking.
            self.waits.append(_wait(proposal, now, wave))
        return proposal_status(
            proposal,
            Standing(
                now,
                by,
                wave,
                self.window,
                self.limits.bytes_per_second,
                idle=self._idle(proposal),
                ran=self._ran(proposal),
            ),
            self.state.now,
        )

    def _look_over(self, proposal: Proposal) -> Wave | None:
        """None where the journal cannot be read: then nothing is known, and nothing changes."""
        if self.ward.journal is None:
            return None
        return look_over(
            proposal,
            self.look,
            self.ward.journal,
            self.limits,
            busy={move.key for move in self.others.moves} | {entry.key for entry in self.others.shrinks},
            idle=self._idle(proposal),
        )

    def _idle(self, proposal: Proposal) -> float:
        """Seconds since a move of it last began or ended, of those in which one could have; begins anew when it goes on."""
        now, status = self.state.now, proposal.status
        since, written = seconds(status.get("progressedAt")), seconds(status.get("updatedAt"))
        paused = status.get("reason") in ("WindowClosed", *_TROUBLES)
        held = not self.window.open or paused or self.trouble is not None or self._unknown() is not None
        if since is None or held or (written is not None and now - written > AWAY):
            return 0.0
        return now - since

    def _ran(self, proposal: Proposal) -> float:
        """Seconds for which it has been carried out."""
        status = proposal.status
        going = proposal.phase is Phase.EXECUTING and status.get("reason") == "Executing"
        before, written = float(status.get("ranSeconds") or 0), seconds(status.get("updatedAt"))
        return carried_out(before, written, self.state.now, going=going)

    def _troubled(self, proposal: Proposal) -> float:
        """Seconds for which a trouble has been in its way, whichever it is now."""
        thing = f"KafkaRebalance/{proposal.name}"
        return max(self.state.waited((_ACTION, thing, reason)) for reason in _TROUBLES)

    def _too_long(self, proposal: Proposal, by: Approval) -> str:
        """Why its time is over. Not asked while Kafka is unknown: what is in motion would not be known either."""
        if proposal.phase is not Phase.EXECUTING or self._unknown() is not None:
            return ""
        who = by.by or proposal.status.get("approvedBy")
        limit = allowed(proposal, self.rules, self.state.spec.disks.move_bytes_per_second, who)
        return too_long(self._ran(proposal), limit)

    def _carry_on(self, proposal: Proposal, wave: Wave, *, go: bool) -> None:
        self.wave, self.go = wave, go
        if not go or self.look.unknown:
            return
        still = {
            move.key for move, mark in zip(proposal.moves, proposal.marks, strict=True) if mark not in OVER
        }
        for lead in proposal.leaders:
            key = (lead.topic, lead.partition)
            if key not in still and lead.broker in getattr(self.look.partitions.get(key), "replicas", ()):
                self.leaders[key] = lead.broker

    def _facts(self, proposal: Proposal, by: Approval, wave: Wave | None) -> Facts:
        executing = proposal.phase is Phase.EXECUTING
        marks = wave.marks if wave is not None else proposal.marks
        unled = self._unled(proposal, wave)
        expires = seconds(proposal.spec.expires) if proposal.spec is not None else None
        return Facts(
            phase=proposal.phase,
            problem=proposal.problem or _nonsense(proposal, expires),
            approved_by=by.by,
            began_by=proposal.status.get("approvedBy"),
            not_by_rule=by.why_not,
            expired=expires is not None and self.state.now >= expires,
            stop=proposal.spec is not None and proposal.spec.stop,
            newer=None if executing else self._newer(proposal, by),
            executing=self._executing(proposal),
            trouble=self.trouble or (None if executing else self._unknown()),
            troubled=self._troubled(proposal),
            window=self.window,
            too_long=self._too_long(proposal, by),
            waiting=marks.count(WAITING),
            moving=marks.count(MOVING),
            done=marks.count(DONE),
            dropped=marks.count(DROPPED),
            leading=0 if self._idle(proposal) > PATIENCE else unled,
            unled=unled,
        )

    def _newer(self, proposal: Proposal, by: Approval) -> str | None:
        """The latest one that was made after this one; what somebody approved gives way only to what somebody approved."""
        later = (
            other.name
            for other in reversed(self.proposals)
            if other.age > proposal.age
            and not other.phase.over
            and (by.by is None or self._approval(other).by is not None)
        )
        return next(later, None)

    def _approval(self, proposal: Proposal) -> Approval:
        return approval(proposal, self.rules, self.state.spec.disks.move_bytes_per_second)

    def _executing(self, proposal: Proposal) -> str | None:
        """Another one that is being carried out; of two that are about to be, the older one goes first."""
        return next(
            (
                other.name
                for other in self.proposals
                if other.phase is Phase.EXECUTING and other.name != proposal.name
            ),
            None,
        )

    def _unknown(self) -> Trouble | None:
        if not self.look.unknown and self.ward.journal is not None:
            return None
        why = self.look.unknown or "the journal of moves cannot be read"
        return Trouble("KafkaUnknown", f"Nothing is begun: {why}.", "Kafka answers again.")

    def _unled(self, proposal: Proposal, wave: Wave | None) -> int:
        """Partitions that another broker is to lead, and could, and that are not in that order yet, or not led by it."""
        if wave is None or self.look.unknown:
            return len(proposal.leaders)  # it may be all of them, so it is not done
        left = 0
        for lead in proposal.leaders:
            partition = self.look.partitions.get((lead.topic, lead.partition))
            left += (
                partition is not None
                and lead.broker in partition.isr
                and lead.broker in partition.replicas
                and (partition.replicas[0] != lead.broker or partition.leader != lead.broker)
            )
        return left

    def wants(self) -> Wants:
        """For the executor: what may begin, and what of ours in the journal nobody wants any more."""
        keep = self.wave.keep if self.wave is not None else set()
        unsure = self.ward.journal is None or self.look.unknown != ""
        journal = self.ward.journal.moves if self.ward.journal is not None else ()
        return Wants(
            moves=tuple(self.wave.go) if self.wave is not None and self.go else (),
            withdrawn=frozenset()
            if unsure
            else frozenset(move.key for move in journal if move.reason == REASON and move.key not in keep),
            leaders=self.leaders,
        )


def _trouble(ward: Ward) -> Trouble | None:
    """What comes before any balance: bad disks, and partitions that nobody can write to."""
    bad = [
        ward.thing(slot).removeprefix("KafkaBroker/")
        for slot in ward.slots
        if ward.now(slot) in (DiskState.FAILED, DiskState.EVACUATING)
    ]
    if bad:
        return Trouble(
            "DisksFirst",
            f"{counted(len(bad), 'disk')} failed, and what stands on it comes first: {some(sorted(bad))}.",
            "The disk is evacuated, or well again.",
            lasts=bool(ward.within(DiskState.EVACUATING)),
        )
    view = ward.state.kafka
    short = sorted(
        partition.name
        for partition in view.partitions or ()
        if (least := (view.min_isr or {}).get(partition.topic)) is not None
        and len(partition.isr) < least < partition.recorded_rf
    )
    if short:
        return Trouble(
            "UnderMinIsr",
            f"{counted(len(short), 'partition')} under min.insync.replicas: {some(short)}. Its copies need the bandwidth.",
            "They catch up.",
        )
    return None


def _nonsense(proposal: Proposal, expires: float | None) -> str:
    """What no schema can refuse."""
    if expires is None:
        return "spec.expires is no time"
    for move in proposal.moves:
        if move.within and move.from_dir == move.to_dir:
            return f"the move of {move.name} goes where it comes from"
    return ""


def _wait(proposal: Proposal, now: Turn, wave: Wave | None) -> Wait:
    """What it waits for; for one that goes on, that it does."""
    message = now.message
    if now.phase is Phase.EXECUTING and wave is not None and wave.waits and not wave.go:
        message = f"{message} {wave.waits[0].message}"
    return Wait(
        _ACTION,
        f"KafkaRebalance/{proposal.name}",
        now.reason,
        message,
        now.unblocked_by or "It is done. To end it: spec.stop.",
        quiet=now.reason == "Executing",
    )


def _tell(draft: Draft, proposal: Proposal, status: Mapping[str, Any]) -> None:
    """An event for each change, and one for what was left out."""

    def event(kind: str, reason: str, message: str) -> None:
        draft.events.append(Event(kind, reason, message, "KafkaRebalance", proposal.name, proposal.uid))

    before = proposal.status
    phase = Phase(status["phase"])
    if status["phase"] != before.get("phase"):
        event(
            "Normal" if phase in _GOOD or phase is Phase.PROPOSED else "Warning",
            f"Rebalance{phase}",
            str(status["message"]),
        )
    fresh = list(status.get("dropped") or ())[len(proposal.dropped) :]
    if fresh:
        more = f" And {len(fresh) - 1} more; status.dropped has all." if len(fresh) > 1 else ""
        first = fresh[0]
        text = first.get("message") or f"{first['topic']}-{first['partition']}: {first['reason']}."
        event("Warning", "MovesDropped", f"{text}{more}")


def _forget(state: State, draft: Draft, proposals: Sequence[Proposal]) -> None:
    """Of those that are over, the latest are kept, and any that somebody made without this KafkaCluster as its owner (rule 16)."""
    ours = {objects.name(raw) for raw in state.snap.rebalances if objects.owned_by(raw, state.cluster)}
    over = [proposal for proposal in proposals if proposal.phase.over]
    for proposal in over[: max(0, len(over) - _KEPT)]:
        if proposal.name in ours:
            draft.do(Delete(kind="KafkaRebalance", name=proposal.name, uid=proposal.uid))


def _blind(state: State) -> Wait:
    return Wait(
        _ACTION,
        f"KafkaCluster/{state.name}",
        "ProposalsUnknown",
        "KafkaRebalances could not be read. What is in motion goes on, nothing more begins.",
        "The API server answers, and the operator's role allows to list them.",
    )

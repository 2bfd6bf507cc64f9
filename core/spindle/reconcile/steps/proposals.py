"""KafkaRebalances: each goes one step on in its life, and of the one that is carried out the executor gets what may begin now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks.lifecycle import DiskState
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.proposals.approval import Approval, approval
from spindle.proposals.duration import AWAY, allowed, carried_out, too_long
from spindle.proposals.lifecycle import ProposalFacts, ProposalProblem, ProposalStep, next_step
from spindle.proposals.move_states import DONE, DROPPED, MOVING, OVER, WAITING
from spindle.proposals.proposal import REASON, Proposal, ProposalPhase, read_proposal
from spindle.proposals.waves import PATIENCE, WaveState, look_over
from spindle.proposals.windows import WindowState, window_state
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.events import Event
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.proposal_status import ProposalProgress, proposal_status
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.moves import MoveRequests, limits_of
from spindle.reconcile.times import seconds

_ACTION: Final = "Rebalance"
_TROUBLES: Final = ("DiskFailureHasPriority", "PartitionsUnderMinIsr")
_KEPT: Final = 10  # proposals that are over
_GOOD: Final = frozenset((ProposalPhase.APPROVED, ProposalPhase.EXECUTING, ProposalPhase.DONE))


@dataclass(frozen=True)
class ProposalResult:
    """What comes of all proposals.

    Attributes:
        requests: for the executor of moves.
        statuses: KafkaRebalance → its status as it should read now.
    """

    requests: MoveRequests = field(default_factory=MoveRequests)
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def reconcile_proposals(
    inventory: DiskInventory, builder: PlanBuilder, others: MoveRequests
) -> ProposalResult:
    """Decide about every proposal of the cluster.

    Args:
        inventory: what is known of the disks; their lives are settled.
        builder: of the pass.
        others: what healing and full disks want: it comes first.
    """
    state = inventory.state
    if "kafkarebalances" in state.snap.unknown:
        # What is in motion goes on to its end; whether anybody still wants it is not known (rule 8).
        builder.wait(_blind(state))
        return ProposalResult()
    found = sorted((read_proposal(raw) for raw in state.snap.rebalances), key=lambda p: p.age)
    proposals = [proposal for proposal in found if not proposal.deleting]
    _forget(state, builder, proposals)
    reconciler = _ProposalReconciler(inventory, others, proposals)
    statuses: dict[str, Mapping[str, Any]] = {}
    for proposal in proposals:
        if proposal.phase.over:
            continue
        made = reconciler.settle(proposal)
        statuses[proposal.name] = made
        _tell(builder, proposal, made)
    builder.wait(*reconciler.waits)
    return ProposalResult(reconciler.wants(), statuses)


class _ProposalReconciler:
    """All proposals of a cluster, while they are worked through."""

    def __init__(self, inventory: DiskInventory, others: MoveRequests, proposals: Sequence[Proposal]) -> None:
        state = inventory.state
        self.inventory, self.state, self.others, self.proposals = inventory, state, others, proposals
        self.rules = state.spec.rebalance
        self.limits = limits_of(state)
        self.window: WindowState = window_state(self.rules.windows, state.now)
        self.trouble = _trouble(inventory)
        self.look = KafkaIndex(inventory.view, others.closed)
        self.waits: list[Waiting] = []
        self.wave: WaveState | None = None
        self.go = False
        self.leaders: dict[PartitionKey, int] = {}

    def settle(self, proposal: Proposal) -> Mapping[str, Any]:
        """One proposal: what it is next, and its status."""
        executing = proposal.phase is ProposalPhase.EXECUTING
        by = self._approval(proposal)
        wave = self._look_over(proposal) if executing else None
        now = next_step(self._facts(proposal, by, wave))
        if wave is not None and now.phase is ProposalPhase.EXECUTING:
            self._carry_on(proposal, wave, go=now.reason == "Executing")
        if now.phase in (ProposalPhase.APPROVED, ProposalPhase.EXECUTING):
            # Nothing in Kubernetes tells when it can go on, so the loop has to go on looking.
            self.waits.append(_wait(proposal, now, wave))
        return proposal_status(
            proposal,
            ProposalProgress(
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

    def _look_over(self, proposal: Proposal) -> WaveState | None:
        """None where the journal cannot be read: then nothing is known, and nothing changes."""
        if self.inventory.journal is None:
            return None
        return look_over(
            proposal,
            self.look,
            self.inventory.journal,
            self.limits,
            busy={move.key for move in self.others.moves} | {entry.key for entry in self.others.shrinks},
            idle=self._idle(proposal),
        )

    def _idle(self, proposal: Proposal) -> float:
        """Seconds since a move of it last began or ended, of those in which one could have; begins anew when it goes on."""
        now, status = self.state.now, proposal.status
        since, written = seconds(status.get("progressedAt")), seconds(status.get("updatedAt"))
        paused = status.get("reason") in ("MaintenanceWindowClosed", *_TROUBLES)
        held = not self.window.open or paused or self.trouble is not None or self._unknown() is not None
        if since is None or held or (written is not None and now - written > AWAY):
            return 0.0
        return now - since

    def _ran(self, proposal: Proposal) -> float:
        """Seconds for which it has been carried out."""
        status = proposal.status
        going = proposal.phase is ProposalPhase.EXECUTING and status.get("reason") == "Executing"
        before, written = float(status.get("ranSeconds") or 0), seconds(status.get("updatedAt"))
        return carried_out(before, written, self.state.now, going=going)

    def _troubled(self, proposal: Proposal) -> float:
        """Seconds for which a trouble has been in its way, whichever it is now."""
        thing = f"KafkaRebalance/{proposal.name}"
        return max(self.state.waited((_ACTION, thing, reason)) for reason in _TROUBLES)

    def _too_long(self, proposal: Proposal, by: Approval) -> str:
        """Why its time is over. Not asked while Kafka is unknown: what is in motion would not be known either."""
        if proposal.phase is not ProposalPhase.EXECUTING or self._unknown() is not None:
            return ""
        who = by.by or proposal.status.get("approvedBy")
        limit = allowed(proposal, self.rules, self.state.spec.disks.move_bytes_per_second, who)
        return too_long(self._ran(proposal), limit)

    def _carry_on(self, proposal: Proposal, wave: WaveState, *, go: bool) -> None:
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

    def _facts(self, proposal: Proposal, by: Approval, wave: WaveState | None) -> ProposalFacts:
        executing = proposal.phase is ProposalPhase.EXECUTING
        marks = wave.move_states if wave is not None else proposal.marks
        unled = self._unled(proposal, wave)
        expires = seconds(proposal.spec.expires) if proposal.spec is not None else None
        return ProposalFacts(
            phase=proposal.phase,
            problem=proposal.problem or _nonsense(proposal, expires),
            approved_by=by.by,
            began_by=proposal.status.get("approvedBy"),
            not_by_rule=by.why_not,
            expired=expires is not None and self.state.now >= expires,
            stop=proposal.spec is not None and proposal.spec.stop,
            newer=None if executing else self._newer(proposal, by),
            executing=self._executing(proposal),
            obstacle=self.trouble or (None if executing else self._unknown()),
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
                if other.phase is ProposalPhase.EXECUTING and other.name != proposal.name
            ),
            None,
        )

    def _unknown(self) -> ProposalProblem | None:
        if not self.look.unknown and self.inventory.journal is not None:
            return None
        why = self.look.unknown or "the journal of moves cannot be read"
        return ProposalProblem("KafkaUnknown", f"Nothing is begun: {why}.", "Kafka answers again.")

    def _unled(self, proposal: Proposal, wave: WaveState | None) -> int:
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

    def wants(self) -> MoveRequests:
        """For the executor: what may begin, and what of ours in the journal nobody wants any more."""
        keep = self.wave.keep if self.wave is not None else set()
        unsure = self.inventory.journal is None or self.look.unknown != ""
        journal = self.inventory.journal.moves if self.inventory.journal is not None else ()
        return MoveRequests(
            moves=tuple(self.wave.go) if self.wave is not None and self.go else (),
            withdrawn=frozenset()
            if unsure
            else frozenset(move.key for move in journal if move.reason == REASON and move.key not in keep),
            leaders=self.leaders,
        )


def _trouble(inventory: DiskInventory) -> ProposalProblem | None:
    """What comes before any balance: bad disks, and partitions that nobody can write to."""
    bad = [
        inventory.object_name(slot).removeprefix("KafkaBroker/")
        for slot in inventory.slots
        if inventory.state_of(slot) in (DiskState.FAILED, DiskState.EVACUATING)
    ]
    if bad:
        return ProposalProblem(
            "DiskFailureHasPriority",
            f"{counted(len(bad), 'disk')} failed, and what stands on it comes first: {some(sorted(bad))}.",
            "The disk is evacuated, or well again.",
            lasts=bool(inventory.in_states(DiskState.EVACUATING)),
        )
    view = inventory.state.kafka
    short = sorted(
        partition.name
        for partition in view.partitions or ()
        if (least := (view.min_isr or {}).get(partition.topic)) is not None
        and len(partition.isr) < least < partition.recorded_rf
    )
    if short:
        return ProposalProblem(
            "PartitionsUnderMinIsr",
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


def _wait(proposal: Proposal, now: ProposalStep, wave: WaveState | None) -> Waiting:
    """What it waits for; for one that goes on, that it does."""
    message = now.message
    if now.phase is ProposalPhase.EXECUTING and wave is not None and wave.waits and not wave.go:
        message = f"{message} {wave.waits[0].message}"
    return Waiting(
        _ACTION,
        f"KafkaRebalance/{proposal.name}",
        now.reason,
        message,
        now.unblocked_by or "It is done. To end it: spec.stop.",
        quiet=now.reason == "Executing",
    )


def _tell(builder: PlanBuilder, proposal: Proposal, status: Mapping[str, Any]) -> None:
    """An event for each change, and one for what was left out."""

    def event(kind: str, reason: str, message: str) -> None:
        builder.events.append(Event(kind, reason, message, "KafkaRebalance", proposal.name, proposal.uid))

    before = proposal.status
    phase = ProposalPhase(status["phase"])
    if status["phase"] != before.get("phase"):
        event(
            "Normal" if phase in _GOOD or phase is ProposalPhase.PROPOSED else "Warning",
            f"Rebalance{phase}",
            str(status["message"]),
        )
    fresh = list(status.get("dropped") or ())[len(proposal.dropped) :]
    if fresh:
        more = f" And {len(fresh) - 1} more; status.dropped has all." if len(fresh) > 1 else ""
        first = fresh[0]
        text = first.get("message") or f"{first['topic']}-{first['partition']}: {first['reason']}."
        event("Warning", "MovesDropped", f"{text}{more}")


def _forget(state: ClusterState, builder: PlanBuilder, proposals: Sequence[Proposal]) -> None:
    """Of those that are over, the latest are kept, and any that somebody made without this KafkaCluster as its owner (rule 16)."""
    ours = {objects.name(raw) for raw in state.snap.rebalances if objects.owned_by(raw, state.cluster)}
    over = [proposal for proposal in proposals if proposal.phase.over]
    for proposal in over[: max(0, len(over) - _KEPT)]:
        if proposal.name in ours:
            builder.do(Delete(kind="KafkaRebalance", name=proposal.name, uid=proposal.uid))


def _blind(state: ClusterState) -> Waiting:
    return Waiting(
        _ACTION,
        f"KafkaCluster/{state.name}",
        "ProposalsUnknown",
        "KafkaRebalances could not be read. What is in motion goes on, nothing more begins.",
        "The API server answers, and the operator's role allows to list them.",
    )

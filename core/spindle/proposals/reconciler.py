"""KafkaRebalances: moves each one to its next phase, and hands the executor the moves of the executing one that may start now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.api.enums import DiskState, ProposalPhase
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import objects
from spindle.model.actions import Delete
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.carry_out import limits_of
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.moves.requests import MoveRequests
from spindle.proposals.approval import Approval, approval
from spindle.proposals.duration import AWAY, allowed, carried_out, too_long
from spindle.proposals.lifecycle import ProposalFacts, ProposalProblem, ProposalStep, next_step
from spindle.proposals.move_states import DONE, DROPPED, MOVING, OVER, WAITING
from spindle.proposals.proposal import REASON, Proposal, read_proposal
from spindle.proposals.proposal_status import ProposalProgress, proposal_status
from spindle.proposals.waves import PATIENCE, WaveState, look_over
from spindle.proposals.windows import WindowState, window_state

_ACTION: Final = "Rebalance"
_TROUBLES: Final = ("DiskFailureHasPriority", "PartitionsUnderMinIsr")
_KEPT: Final = 10  # finished proposals
_GOOD: Final = frozenset((ProposalPhase.APPROVED, ProposalPhase.EXECUTING, ProposalPhase.DONE))


@dataclass(frozen=True)
class ProposalResult:
    """The moves and statuses that result from all proposals.

    Attributes:
        requests: for the executor of moves.
        statuses: KafkaRebalance → the status to write.
    """

    requests: MoveRequests = field(default_factory=MoveRequests)
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def reconcile_proposals(
    inventory: DiskInventory, builder: PlanBuilder, automatic: MoveRequests
) -> ProposalResult:
    """Decide the next phase of every proposal of the cluster.

    Args:
        inventory: the cluster's disks, with their states decided.
        builder: of the pass.
        automatic: moves for healing and full disks; they take precedence.
    """
    state = inventory.state
    if "kafkarebalances" in state.snap.unknown:
        # Running moves complete; whether they are still requested is unknown (safety rule "unknown is not absent", docs/safety.md).
        builder.wait(_unreadable(state))
        return ProposalResult()
    found = sorted((read_proposal(raw) for raw in state.snap.rebalances), key=lambda p: p.age)
    proposals = [proposal for proposal in found if not proposal.deleting]
    _delete_finished(state, builder, proposals)
    reconciler = _ProposalReconciler(inventory, automatic, proposals)
    statuses: dict[str, Mapping[str, Any]] = {}
    for proposal in proposals:
        if proposal.phase.over:
            continue
        status = reconciler.next_status(proposal)
        statuses[proposal.name] = status
        _report_changes(builder, proposal, status)
    builder.wait(*reconciler.waits)
    return ProposalResult(reconciler.requests(), statuses)


class _ProposalReconciler:
    """The state shared by the proposals of a cluster during one pass."""

    def __init__(self, inventory: DiskInventory, others: MoveRequests, proposals: Sequence[Proposal]) -> None:
        state = inventory.state
        self.inventory, self.state, self.others, self.proposals = inventory, state, others, proposals
        self.rules = state.spec.rebalance
        self.limits = limits_of(state)
        self.window: WindowState = window_state(self.rules.windows, state.now)
        self.trouble = _precedence(inventory)
        self.look = KafkaIndex(inventory.view, others.closed)
        self.waits: list[Waiting] = []
        self.wave: WaveState | None = None
        self.go = False
        self.leaders: dict[PartitionKey, int] = {}

    def next_status(self, proposal: Proposal) -> Mapping[str, Any]:
        """Take one proposal to its next phase; returns its status."""
        executing = proposal.phase is ProposalPhase.EXECUTING
        by = self._approval(proposal)
        wave = self._look_over(proposal) if executing else None
        now = next_step(self._facts(proposal, by, wave))
        if wave is not None and now.phase is ProposalPhase.EXECUTING:
            self._carry_on(proposal, wave, go=now.reason == "Executing")
        if now.phase in (ProposalPhase.APPROVED, ProposalPhase.EXECUTING):
            # No Kubernetes event says when it can continue, so the wait keeps the loop running.
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
        """The state of the proposal's moves; None if the journal cannot be read: then nothing changes."""
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
        """Seconds since one of its moves last started or ended, not counting time in which none could; resets when it resumes."""
        now, status = self.state.now, proposal.status
        since, written = seconds(status.get("progressedAt")), seconds(status.get("updatedAt"))
        paused = status.get("reason") in ("MaintenanceWindowClosed", *_TROUBLES)
        held = not self.window.open or paused or self.trouble is not None or self._unknown() is not None
        if since is None or held or (written is not None and now - written > AWAY):
            return 0.0
        return now - since

    def _ran(self, proposal: Proposal) -> float:
        """Seconds for which it has been executing."""
        status = proposal.status
        going = proposal.phase is ProposalPhase.EXECUTING and status.get("reason") == "Executing"
        before, written = float(status.get("ranSeconds") or 0), seconds(status.get("updatedAt"))
        return carried_out(before, written, self.state.now, going=going)

    def _troubled(self, proposal: Proposal) -> float:
        """Seconds for which disk failures or partitions under min ISR have held it back."""
        object_name = f"KafkaRebalance/{proposal.name}"
        return max(self.state.waited((_ACTION, object_name, reason)) for reason in _TROUBLES)

    def _too_long(self, proposal: Proposal, by: Approval) -> str:
        """Why its maximum duration is exceeded. Empty while Kafka's state is unknown, since its running moves are unknown too."""
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
            problem=proposal.problem or _invalid(proposal, expires),
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
        """The newest proposal that supersedes this one; only an approved one supersedes an approved one."""
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
        """Another proposal that is executing; of two that could start, the older one goes first."""
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
        return ProposalProblem(
            "KafkaUnknown",
            f"No move starts: {why}.",
            "Nothing to do: Spindle continues when Kafka answers again and the journal can be read.",
        )

    def _unled(self, proposal: Proposal, wave: WaveState | None) -> int:
        """Partitions whose planned preferred leader is in sync, but is not yet first in the replica list or not yet the leader."""
        if wave is None or self.look.unknown:
            return len(proposal.leaders)  # it may be all of them, so it is not done
        left = 0
        for lead in proposal.leaders:
            partition = self.look.partitions.get((lead.topic, lead.partition))
            left += (
                partition is not None
                and lead.broker in partition.isr
                and lead.broker in partition.replicas
                and (partition.replicas[:1] != (lead.broker,) or partition.leader != lead.broker)
            )
        return left

    def requests(self) -> MoveRequests:
        """For the executor: the moves that may start, and the moves in the journal that no proposal needs any more."""
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


def _precedence(inventory: DiskInventory) -> ProposalProblem | None:
    """What takes precedence over any rebalance: bad disks, and partitions under min.insync.replicas."""
    bad = [
        inventory.object_name(slot).removeprefix("KafkaBroker/")
        for slot in inventory.in_states(DiskState.FAILED, DiskState.EVACUATING)
    ]
    if bad:
        return ProposalProblem(
            "DiskFailureHasPriority",
            f"{counted(len(bad), 'disk')} failed: {some(sorted(bad))}. Re-replicating {'its' if len(bad) == 1 else 'their'} replicas comes first.",
            f"Nothing to do: Spindle continues when {'the disk is' if len(bad) == 1 else 'the disks are'} evacuated or healthy again.",
            lasts=bool(inventory.in_states(DiskState.EVACUATING)),
        )
    view = inventory.state.kafka
    short = sorted(
        partition.name
        for partition in view.partition_index.unsettled
        if (least := (view.min_isr or {}).get(partition.topic)) is not None
        and len(partition.isr) < least < partition.recorded_rf
    )
    if short:
        return ProposalProblem(
            "PartitionsUnderMinIsr",
            f"{counted(len(short), 'partition')} {'is' if len(short) == 1 else 'are'} below min.insync.replicas: {some(short)}. The replicas that catch up need the bandwidth.",
            "Nothing to do: Spindle continues when the replicas are back in the ISR.",
        )
    return None


def _invalid(proposal: Proposal, expires: float | None) -> str:
    """What the CRD's schema cannot reject."""
    if expires is None:
        return "spec.expires is not a time"
    for move in proposal.moves:
        if move.within and move.from_dir == move.to_dir:
            return f"the move of {move.name} has the same log dir as source and target"
    return ""


def _wait(proposal: Proposal, now: ProposalStep, wave: WaveState | None) -> Waiting:
    """What the proposal waits for; for an executing one, its progress."""
    message = now.message
    if now.phase is ProposalPhase.EXECUTING and wave is not None and wave.waits and not wave.go:
        message = f"{message} {wave.waits[0].message}"
    return Waiting(
        _ACTION,
        f"KafkaRebalance/{proposal.name}",
        now.reason,
        message,
        now.unblocked_by or "Nothing to do: Spindle executes it. To stop it, set spec.stop.",
        quiet=now.reason == "Executing",
    )


def _report_changes(builder: PlanBuilder, proposal: Proposal, status: Mapping[str, Any]) -> None:
    """An event for each change of phase, and one for moves that were dropped."""

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
        more = f" And {len(fresh) - 1} more; status.dropped lists all." if len(fresh) > 1 else ""
        first = fresh[0]
        text = first.get("message") or f"{first['topic']}-{first['partition']}: {first['reason']}."
        event("Warning", "MovesDropped", f"{text}{more}")


def _delete_finished(state: ClusterState, builder: PlanBuilder, proposals: Sequence[Proposal]) -> None:
    """Delete finished proposals but the latest ten, and never one that this KafkaCluster does not own.

    Safety rule "only owned objects are changed" (``docs/safety.md``).
    """
    ours = {objects.name(raw) for raw in state.snap.rebalances if objects.owned_by(raw, state.cluster)}
    over = [proposal for proposal in proposals if proposal.phase.over]
    for proposal in over[: max(0, len(over) - _KEPT)]:
        if proposal.name in ours:
            builder.do(Delete(kind="KafkaRebalance", name=proposal.name, uid=proposal.uid))


def _unreadable(state: ClusterState) -> Waiting:
    return Waiting(
        _ACTION,
        f"KafkaCluster/{state.name}",
        "ProposalsUnknown",
        "The KafkaRebalances could not be listed. Running moves complete, and no further move starts.",
        "Check that the API server answers and that the operator's role may list kafkarebalances.",
    )

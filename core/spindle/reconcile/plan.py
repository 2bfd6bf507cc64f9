"""observe → **plan** → act → report: one pure function from what was seen to what to do and say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from spindle.cluster.refusal import Refusal, some
from spindle.cluster.versions import unsupported
from spindle.moves.journal import Journal
from spindle.moves.lacking import meant
from spindle.reconcile import objects
from spindle.reconcile.actions import Apply, Patch
from spindle.reconcile.asked import as_accepted, nothing_accepted, tell_refused, tell_tolerated
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.events import Event, Plan
from spindle.reconcile.snapshot import Snapshot
from spindle.reconcile.state import State, read_state
from spindle.reconcile.steps.agent_access import settle_agents
from spindle.reconcile.steps.all_lost import tell_all_lost
from spindle.reconcile.steps.birth import settle_identity
from spindle.reconcile.steps.broker_status import broker_statuses
from spindle.reconcile.steps.brokers import Records, settle_brokers
from spindle.reconcile.steps.claims import settle_claims
from spindle.reconcile.steps.controllers import settle_controllers
from spindle.reconcile.steps.deletion import settle_deletion
from spindle.reconcile.steps.disks import settle_disks
from spindle.reconcile.steps.drains import settle_drains
from spindle.reconcile.steps.emptying import together
from spindle.reconcile.steps.filling import settle_filling
from spindle.reconcile.steps.former_users import settle_former_users
from spindle.reconcile.steps.gates import settle_gates
from spindle.reconcile.steps.gone_for_good import settle_gone_for_good
from spindle.reconcile.steps.growing import settle_growth
from spindle.reconcile.steps.healing import (
    Healed,
    grow_back_first,
    only_look,
    settle_healing,
    to_restart,
)
from spindle.reconcile.steps.leading import still_leading
from spindle.reconcile.steps.losses import at_risk
from spindle.reconcile.steps.moves import carry_out, load_journal, settle_moves
from spindle.reconcile.steps.pods import settle_pods
from spindle.reconcile.steps.problems import report_nodes, report_problems, report_racks
from spindle.reconcile.steps.proposals import settle_proposals
from spindle.reconcile.steps.rebalance_job import settle_job
from spindle.reconcile.steps.returning import settle_returning
from spindle.reconcile.steps.samples import settle_samples
from spindle.reconcile.steps.scrubbing import settle_scrubbing
from spindle.reconcile.steps.security import settle_admin, settle_rebalance, settle_security
from spindle.reconcile.steps.services import (
    settle_configuration,
    settle_policies,
    settle_pools,
    settle_services,
)
from spindle.reconcile.steps.shrinking import settle_removals
from spindle.reconcile.steps.sizing import settle_sizes
from spindle.reconcile.steps.spreading import settle_spreading
from spindle.reconcile.steps.static_quorum import settle_static_quorum
from spindle.reconcile.steps.status import cluster_status
from spindle.reconcile.steps.stranded import settle_stranded
from spindle.reconcile.steps.takedown import Wanted, settle_takedowns
from spindle.reconcile.steps.taken import leave_alone
from spindle.reconcile.steps.tuning import settle_tuning
from spindle.reconcile.steps.upgrade import settle_upgrade
from spindle.reconcile.steps.users import settle_users, unsettled
from spindle.reconcile.steps.watchers import tell_clocks
from spindle.reconcile.times import stamp
from spindle.reconcile.ward import Ward

__all__ = ["Event", "Plan", "plan"]

# Without these lists nobody knows what exists; nothing is made or taken away meanwhile (rule 8).
_NEEDED: Final = frozenset({"pods", "persistentvolumeclaims", "configmaps", "kafkabrokers"})


def plan(snapshot: Snapshot, now: float) -> Plan:
    """Decide what to do next.

    Each pass takes every step that what it saw allows; the next pass sees what came of them. There is no memory but
    the cluster's own state, so it does not matter which process plans, or where the last one died.

    Args:
        snapshot: one look at Kubernetes and Kafka.
        now: seconds since the epoch.
    """
    try:
        state = as_accepted(read_state(snapshot, now))
    except ValidationError as error:
        return _not_understood(snapshot, error, now)
    draft = Draft()
    finished, done = False, Done()
    users: dict[str, dict[str, Any]] = {}
    former: list[dict[str, Any]] | None = None
    # Where clients find a listener from outside stands in its Services.
    outside = any(listener.type != "internal" for listener in state.spec.listeners)
    blind = sorted(snapshot.unknown & (_NEEDED | {"services"} if outside else _NEEDED))
    if blind:
        draft.wait(_blind(state, blind))
    elif objects.deleting(snapshot.cluster):
        finished = settle_deletion(state, draft)
    elif not state.spec.paused:
        done = _steps(state, draft)
        if done.ward is not None and "kafkausers" not in snapshot.unknown:
            users = settle_users(state, draft)
            former = settle_former_users(state, draft)
    if not finished:
        report_nodes(state, draft)
        report_problems(state, draft)
        tell_clocks(state, draft)
    ward = done.ward or only_look(state, draft)
    if not finished:
        report_racks(state, draft, ward.journal)
    leave_alone(state, draft)
    statuses = broker_statuses(state, ward.lives, ward.fills)
    return Plan(
        actions=tuple(draft.actions),
        status=cluster_status(state, draft, statuses, at_risk(ward), former),
        broker_statuses={} if objects.deleting(snapshot.cluster) else statuses,
        rebalance_statuses=done.rebalances,
        events=(*_untold(draft), *_events(state, draft)),
        finished=finished,
        user_statuses=users,
        settled=not draft.actions and not draft.waits and not unsettled(users),
    )


@dataclass(frozen=True)
class Done:
    """What the steps found out, beside what they want done.

    Attributes:
        ward: about the disks; None if nothing was done.
        rebalances: KafkaRebalance → its status.
    """

    ward: Ward | None = None
    rebalances: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _steps(state: State, draft: Draft) -> Done:
    """All that is done for a cluster that is to run."""
    if not _may_begin(state, draft):
        return Done()
    settle_upgrade(state, draft)
    identity = settle_identity(state, draft)
    if identity is None:
        return Done()
    settle_static_quorum(state, draft, identity)
    records = Records()
    settle_services(state, draft)
    settle_policies(state, draft)
    settle_pools(state, draft)
    settle_brokers(state, draft, records)
    nodes = (*state.controller_ids, *state.staying)
    settle_agents(state, draft)
    settle_security(state, draft, nodes)
    settle_job(state, draft)
    settle_claims(state, draft, identity)
    settle_sizes(state, draft, identity)
    settle_configuration(state, draft, identity)
    wanted = settle_pods(state, draft, identity)
    settle_disks(state, draft, identity, records, wanted)
    settle_returning(state, draft, records)
    staying = settle_controllers(state, draft, identity, wanted)
    journal = load_journal(state, draft)
    healed = settle_healing(state, draft, records, identity, wanted, journal)
    tell_all_lost(healed.ward, draft)
    settle_stranded(state, wanted)
    settle_tuning(state, draft, wanted)
    settle_growth(healed.ward, draft, records, identity)
    settle_removals(healed.ward, draft, records, identity)
    settle_gone_for_good(healed.ward, draft, records, identity)
    filling = settle_filling(healed.ward, draft, records)
    scrubbing = settle_scrubbing(healed.ward, draft, records)
    wants = settle_spreading(healed.ward, together(together(healed.wants, filling.wants), scrubbing))
    topics = settle_samples(state, draft, records)
    proposed = settle_proposals(healed.ward, draft, wants)
    wants = together(wants, proposed.wants)
    outcome = settle_moves(state, draft, records, journal, wants) if journal is not None else None
    records.write(state, draft)
    _take_down(state, draft, healed, outcome.journal if outcome is not None else journal, wanted, staying)
    settle_gates(state, draft)
    settle_admin(state, draft)
    settle_rebalance(state, draft)
    draft.do(*healed.elections)
    if outcome is not None:
        carry_out(draft, outcome)
    draft.do(*filling.trims, *topics)
    return Done(healed.ward, proposed.statuses)


def _may_begin(state: State, draft: Draft) -> bool:
    """Whether there is a spec that can be carried out: of a release that is run here, with settings that it takes."""
    why = unsupported(state.spec.version)
    if why is not None:
        draft.wait(Wait.refused("RunVersion", f"KafkaCluster/{state.name}", why))
        return False
    tell_refused(state, draft)
    tell_tolerated(state, draft)
    return not nothing_accepted(state)


def _take_down(
    state: State,
    draft: Draft,
    healed: Healed,
    journal: Journal | None,
    wanted: Mapping[int, Wanted],
    staying: Mapping[int, Refusal],
) -> None:
    """Who goes down, with all counted that leaves an assignment in this pass: ``journal`` is as it will stand after it."""
    partitions = state.kafka.partitions
    before = meant(journal, partitions)
    given = settle_drains(state, draft, before)
    settle_takedowns(
        state,
        draft,
        wanted,
        held=healed.held | still_leading(healed.ward, draft, healed.wants.leads),
        refused={**grow_back_first(journal, partitions, wanted), **staying},
        given=given | to_restart(healed.wants),
        before=before,
        fences=healed.fences,
        shrinks=healed.ward.blocked,
    )


def _blind(state: State, kinds: list[str]) -> Wait:
    return Wait(
        "Reconcile",
        f"KafkaCluster/{state.name}",
        "CannotRead",
        f"{some(kinds)} could not be read, so it is not known what exists. Nothing is changed meanwhile.",
        "The API server answers, and the operator's role allows to list them; and the namespace does not hold more than may be read for one KafkaCluster (96 MiB). "
        "The operator's log says which it is.",
    )


def _untold(draft: Draft) -> list[Event]:
    """Events of the pass, but for those of KafkaBrokers whose status will not be written because this pass changes them.

    What they tell is not on record then, and the next pass comes to it again. What is bad is told at once all the same.
    """
    changed = {
        str(action.object["metadata"]["name"]) if isinstance(action, Apply) else action.name
        for action in draft.actions
        if (isinstance(action, Apply) and action.object["kind"] == "KafkaBroker")
        or (isinstance(action, Patch) and action.kind == "KafkaBroker")
    }
    return [
        e for e in draft.events if e.type == "Warning" or e.kind != "KafkaBroker" or e.name not in changed
    ]


def _events(state: State, draft: Draft) -> tuple[Event, ...]:
    """An event for each wait that is new and not part of every normal start."""
    known = {(w.get("action"), w.get("object"), w.get("reason")) for w in state.status.get("waiting") or ()}
    return tuple(
        Event(
            type="Warning",
            reason=wait.reason,
            message=f"{wait.object}: {wait.message} Way out: {wait.unblocked_by}",
            kind="KafkaCluster",
            name=state.name,
            uid=objects.uid(state.cluster),
        )
        for wait in draft.waits
        if not wait.quiet and wait.key not in known
    )


def _not_understood(snapshot: Snapshot, error: ValidationError, now: float) -> Plan:
    """A spec that the API server took and this version cannot read: the definitions are of another version."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = f"spec.{where}: {first['msg']}"
    generation = snapshot.cluster["metadata"].get("generation", 0)
    condition: dict[str, Any] = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "SpecNotUnderstood",
        "message": f"{message}. Nothing is changed. Way out: correct the field, or install the chart's own definitions.",
        "lastTransitionTime": stamp(now),
        "observedGeneration": generation,
    }
    name = str(snapshot.cluster["metadata"]["name"])
    former = (snapshot.cluster.get("status") or {}).get("formerUsers")
    return Plan(
        status={
            **({"formerUsers": former} if former else {}),
            "observedGeneration": generation,
            "phase": f"The spec is not understood: {message}.",
            "conditions": [condition],
        },
        events=(
            Event(
                "Warning", "SpecNotUnderstood", message, "KafkaCluster", name, objects.uid(snapshot.cluster)
            ),
        ),
    )

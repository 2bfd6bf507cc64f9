"""The predicates of the safety rules (``docs/safety.md``), each with what it says once it is made to say yes, and how that is put in its place.

Nothing of this is known to the code: a name is replaced in a process that was started for it.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, Final

from spindle.api.enums import ProposalPhase
from spindle.disks.acceptance import Accepted
from spindle.disks.disk_slot import SlotContent
from spindle.model.agents import SILENT_SECONDS
from spindle.model.dir_list import NO_LIST
from spindle.model.node_loss import NodeLossEvidence, is_ready
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.times import seconds
from spindle.proposals.lifecycle import ProposalStep

Weaken = Callable[[Any], Any]
ALONE: Final = "answers_alone"  # attribute of a function that only answers, and calls nothing


@dataclass(frozen=True)
class Mutant:
    """One function, or constant, made to permit more.

    Attributes:
        target: ``module:name`` or ``module:Class.name``.
        weaken: what takes its place, made from what stood there.
        tests: test files that ask it, of ``tests``, the quickest first.
        rule: of ``docs/safety.md``.
        mend: whether it takes out what was added for a defect, rather than what a rule asks.
        also: further functions of the same mend, each enough by itself: (``module:name``, what takes its place).
    """

    rule: int
    target: str
    weaken: Weaken
    tests: tuple[str, ...]
    mend: bool = False
    also: tuple[tuple[str, Weaken], ...] = ()

    @property
    def name(self) -> str:
        """How it is called on the command line: ``disks.rules:may_format``."""
        return self.target.removeprefix("spindle.")


def install(mutant: Mutant) -> None:
    """Put it in its place, in this process, wherever the original is known by a name of its own already."""
    for target, weaken in ((mutant.target, mutant.weaken), *mutant.also):
        put(target, weaken)


def put(target: str, weaken: Weaken) -> None:
    """Put something in the place of one function, property or constant, made from what stands there."""
    module_name, _, path = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *parts, last = path.split(".")
    for part in parts:
        owner = getattr(owner, part)
    original = inspect.getattr_static(owner, last)
    if isinstance(original, property):
        made: Any = property(weaken(original.fget))
    elif isinstance(original, cached_property):
        made = cached_property(weaken(original.func))
        made.__set_name__(owner, last)
    else:
        made = weaken(original)
    setattr(owner, last, made)
    if parts:
        return
    for module in list(sys.modules.values()):
        for key, value in list(vars(module).items()) if module is not None else ():
            if value is original:
                setattr(module, key, made)


def always(value: Any) -> Weaken:
    """A function that answers this, whatever it is asked."""

    def weaken(original: Any) -> Any:
        @wraps(original)
        def weakened(*_: Any, **__: Any) -> Any:
            return value() if isinstance(value, type) else value

        weakened.__dict__[ALONE] = True
        return weakened

    return weaken


def around(change: Callable[..., Any]) -> Weaken:
    """A function that is given the original as its first argument."""

    def weaken(original: Any) -> Any:
        @wraps(original)
        def weakened(*args: Any, **kwargs: Any) -> Any:
            return change(original, *args, **kwargs)

        return weakened

    return weaken


def constant(value: Any) -> Weaken:
    """A constant in the place of another one."""
    return lambda _: value


_NO: Final = always(None)  # of what answers a refusal, or None for yes
_YES: Final = always(value=True)
_FALSE: Final = always(value=False)
_NOBODY: Final = always(frozenset)


def _allowed(_: Any) -> Any:
    return always(RestartVerdict)(_)


def _all_accepted(original: Any, replica_index: Any, losses: Any, _: Any) -> Any:
    """As if a person had accepted every loss."""
    return original(
        replica_index, losses, {loss.directory_id: Accepted(loss.text, loss.partitions) for loss in losses}
    )


def _one_word_suffices(_: Any, losses: Any, accepted: Any) -> Any:
    """One accepted disk of a broker gives up what may as well stand on another one."""
    words = ((loss, accepted.get(loss.directory_id)) for loss in losses)
    given = {
        (loss.broker, key): loss
        for loss, word in words
        if word is not None and not word.done
        for key in loss.partitions & word.partitions
    }
    return given, []


def _silence_is_evidence(original: Any, node: Any, nodes: Any) -> Any:
    found = original(node, nodes)
    silent = bool(node) and node in (nodes or {}) and not is_ready(nodes[node])
    return NodeLossEvidence.DELETED if found is None and silent else found


def _without_limit(original: Any, dirs: Any, sizes: Any, _: float = 0.9) -> Any:
    return original(dirs, sizes, 1000.0)


def _oldest(_: Any) -> Any:
    return lambda lists: min(
        (each for each in lists if each), key=lambda each: each.generation, default=NO_LIST
    )


def _new_slot(original: Any, seen: Any, *args: Any) -> Any:
    """Whatever is blank counts as a new disk."""
    return SlotContent.NEW if seen.content == "blank" else original(seen, *args)


def _claims_asked_for(original: Any, state: Any, builder: Any) -> Any:
    """As if the spec asked for the claims to be deleted."""
    return original(replace(state, spec=state.spec.model_copy(update={"delete_claims": True})), builder)


def _without_finalizer(original: Any, state: Any, journal: Any) -> Any:
    """The journal goes when somebody deletes it."""

    def bare(made: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {k: v for k, v in (made.get("metadata") or {}).items() if k != "finalizers"}
        return {**made, "metadata": metadata} if "metadata" in made else dict(made)

    return tuple(
        replace(
            action,
            **{part: bare(getattr(action, part)) for part in ("object", "body") if hasattr(action, part)},
        )
        for action in original(state, journal)
    )


def _live_wherever(original: Any, look: Any, broker: int, partition: Any) -> Any:
    """What stands on a bad disk counts as a live replica as long as Kafka shows it."""
    before, look.bad = look.bad, frozenset()
    try:
        return original(look, broker, partition)
    finally:
        look.bad = before


def _without_guard(_: Any) -> Any:
    """A record is written over whatever stands there."""

    async def over(self: Any, obj: Any, __: Any) -> Any:
        return await self._kube.apply(obj, self._namespace)

    return over


def _goes_on_after_records(original: Any, action: Any) -> bool:
    """A record that could not be written does not end the pass."""
    return bool(original(action)) and type(action).__name__ != "Apply"


def _asks_nobody(original: Any, *args: Any) -> dict[str, Any]:
    """Listeners that ask clients for no certificate."""
    return {**original(*args), "ssl.client.auth": "none"}


def _approved_first(original: Any, facts: Any) -> Any:
    """That a proposal was approved is noted in a pass of its own."""
    turn = original(facts)
    if facts.phase is ProposalPhase.PROPOSED and turn.phase is ProposalPhase.EXECUTING:
        return ProposalStep(ProposalPhase.APPROVED, "ApprovalRequired", "It was approved.", "Nothing to do.")
    return turn


def _order_before_election(original: Any, look: Any, leaders: Any, busy: Any) -> Any:
    """Leaders are elected in a later pass than the order of replicas is changed."""
    intents = original(look, leaders, busy)
    return intents[:-1] if len(intents) > 1 else intents


def _silent_by_its_clock(original: Any, self: Any, known: Any, now: float) -> Any:
    """An agent whose clock is off counts as silent."""
    agent = original(self, known, now)
    return replace(agent, age=None) if abs(agent.offset) > SILENT_SECONDS else agent


_U: Final = "unit/"

MUTANTS: Final = (
    # 1: no format over a last copy
    Mutant(1, "spindle.disks.rules:may_format", _NO, (_U + "test_disks_rules.py",)),
    Mutant(1, "spindle.disks.rules:may_clear", _NO, (_U + "test_disks_rules.py",)),
    Mutant(1, "spindle.disks.judge:may_write_identity", _YES, (_U + "test_disks_judge.py",)),
    Mutant(1, "spindle.disks.judge:unused", around(lambda _, given, __: list(given)), (_U + "test_disks_judge.py",)),
    Mutant(1, "spindle.moves.rules:may_add", _NO, (_U + "test_moves_execute.py",)),
    Mutant(1, "spindle.evacuation.restore_replicas:may_add", _YES, (_U + "test_healing.py",)),
    Mutant(1, "spindle.disks.acceptance:resolve_losses", around(_all_accepted), (_U + "test_healing.py", _U + "test_healing_plan.py")),
    Mutant(1, "spindle.disks.acceptance:_accepted_replicas", around(_one_word_suffices), (_U + "test_healing.py",), mend=True),
    Mutant(1, "spindle.disks.preflight_findings:_was_formatted", _FALSE, (_U + "test_plan.py",)),
    # 2: no restart below the minimum
    Mutant(2, "spindle.model.restart_safety:RestartSafety.may_go_down", _allowed, (_U + "test_rolling.py",)),
    Mutant(2, "spindle.model.restart_safety:RestartSafety._meant", around(lambda _, __, p: p.recorded_rf), (_U + "test_rolling.py",), mend=True),
    Mutant(2, "spindle.rollout.controllers:controller_may_go_down", _allowed, (_U + "test_rolling.py",)),
    Mutant(2, "spindle.evacuation.fence:may_fence", _NO, (_U + "test_healing.py",)),
    Mutant(2, "spindle.evacuation.fence:_sole_in_sync", always(list), (_U + "test_healing.py",), mend=True),
    Mutant(2, "spindle.controllers.next_step:_majority", _YES, (_U + "test_quorum.py",)),
    Mutant(2, "spindle.model.unavailable:unavailable_with", _NOBODY, (_U + "test_plan.py", _U + "test_healing_plan.py")),
    Mutant(2, "spindle.reconcile.phases:meant", always(dict), (_U + "test_healing_plan.py",), mend=True),
    Mutant(2, "spindle.rollout.eviction:_fenced", always(()), (_U + "test_healing_plan.py",), mend=True),
    Mutant(2, "spindle.evacuation.fencing:_waiting_for", around(lambda _, inventory, __: frozenset(inventory.by_broker)), (_U + "test_healing_plan.py",)),
    Mutant(2, "spindle.moves.removals:may_remove", _NO, (_U + "test_topic_replicas.py",)),
    Mutant(2, "spindle.reconcile.healing:removal_pending", always(dict), (_U + "test_topic_replicas.py",)),
    # 3: no rack lost
    Mutant(3, "spindle.model.racks:move_keeps_racks", _YES, (_U + "test_moves_execute.py",)),
    Mutant(3, "spindle.moves.removals:_loses_rack", _NO, (_U + "test_topic_replicas.py",)),
    Mutant(3, "spindle.moves.rules:keeps_racks", _NO, (_U + "test_moves_execute.py",)),
    Mutant(3, "spindle.scaling.rules:may_begin", _NO, (_U + "test_scaling_rules.py",)),
    Mutant(3, "spindle.moves.kafka_index:KafkaIndex.live", around(_live_wherever), (_U + "test_moves_execute.py", _U + "test_healing_plan.py"), mend=True),
    Mutant(
        3, "spindle.evacuation.requests:_refused_for_long", _FALSE, (_U + "test_healing_plan.py",), mend=True,
        also=(("spindle.moves.kafka_index:KafkaIndex.live", around(_live_wherever)),),
    ),
    Mutant(3, "spindle.evacuation.restore_rack_spread:reconcile_rack_spread", around(lambda _, __, others: others), (_U + "test_rack_spread_plan.py",), mend=True),
    # 4: no overfull target
    Mutant(4, "spindle.moves.rules:has_room", _NO, (_U + "test_moves_execute.py",)),
    Mutant(4, "spindle.moves.rules:fits", _YES, (_U + "test_moves_execute.py",)),
    Mutant(4, "spindle.moves.rules:wherever_it_lands", _NO, (_U + "test_moves_execute.py",)),
    Mutant(4, "spindle.moves.rules:target_filling", _NO, (_U + "test_moves_execute.py",)),
    Mutant(4, "spindle.moves.limits:Limits.ceiling", always(10.0), (_U + "test_moves_execute.py", _U + "test_healing_plan.py")),
    Mutant(
        4, "spindle.disks.disk_inventory:DiskInventory._ceilings", always(dict), (_U + "test_healing_plan.py",), mend=True,
    ),
    Mutant(
        4, "spindle.moves.ceilings:ceilings", always(dict), (_U + "test_healing_plan.py",),
    ),
    Mutant(4, "spindle.evacuation.restore_replicas:place", around(_without_limit), (_U + "test_healing.py",)),
    # 5: no dir removed with replicas on it
    Mutant(5, "spindle.disks.remove_dir:may_remove_dir", _NO, (_U + "test_healing.py",)),
    Mutant(5, "spindle.evacuation.drop_replicas:may_drop_replica", _NO, (_U + "test_healing.py",)),
    Mutant(5, "spindle.evacuation.drop_replicas:_enough", _YES, (_U + "test_healing.py",)),
    Mutant(5, "spindle.moves.rules:comes_back", _NO, (_U + "test_moves_execute.py",)),
    Mutant(5, "spindle.scaling.rules:may_go", _NO, (_U + "test_scaling_rules.py",)),
    Mutant(5, "spindle.model.claim_release:_retained", _YES, (_U + "test_change_disks.py",)),
    Mutant(5, "spindle.reconcile.healing:restore_pending", always(dict), (_U + "test_healing.py",)),
    Mutant(5, "spindle.evacuation.requests:_not_spared", always((None, None)), (_U + "test_deadlocks.py",), mend=True),
    Mutant(5, "spindle.evacuation.requests:_to_restart", _NOBODY, (_U + "test_healing_plan.py",), mend=True),
    Mutant(5, "spindle.model.dir_removal:seen_empty", _YES, (_U + "test_dir_removal.py",), mend=True),
    Mutant(5, "spindle.model.dir_removal:ends_without", _YES, (_U + "test_dir_removal.py",)),
    Mutant(5, "spindle.evacuation.requests:_keep", _NO, (_U + "test_healing_plan.py", _U + "test_change_disks.py")),
    # 6: no move that Kafka refuses or another one disturbs
    Mutant(6, "spindle.moves.rules:undisturbed", _NO, (_U + "test_moves_execute.py",)),
    Mutant(6, "spindle.moves.rules:moves_within", _NO, (_U + "test_moves_execute.py",)),
    Mutant(6, "spindle.moves.rules:has_leader", _NO, (_U + "test_moves_execute.py",)),
    Mutant(6, "spindle.moves.rules:takes", _NO, (_U + "test_moves_execute.py",)),
    Mutant(6, "spindle.moves.rules:may_choose_dir", _NO, (_U + "test_moves_execute.py",)),
    Mutant(6, "spindle.moves.journal:Move.placeable", _YES, (_U + "test_moves_execute.py",), mend=True),
    Mutant(6, "spindle.evacuation.drop_replicas:_moving", _FALSE, (_U + "test_healing.py",)),
    Mutant(6, "spindle.evacuation.restore_replicas:_cannot_take", _NO, (_U + "test_healing.py",)),
    # 7: no disk taken for another
    Mutant(7, "spindle.disks.judge:_wrong_identity", _NO, (_U + "test_disks_judge.py",)),
    Mutant(7, "spindle.disks.judge:_retired", _NO, (_U + "test_disks_judge.py",)),
    Mutant(7, "spindle.disks.judge:another_filesystem", _FALSE, (_U + "test_disks_judge.py",)),
    Mutant(7, "spindle.disks.disk_slot:classify_slot", around(_new_slot), (_U + "test_healing.py",)),
    # 8: unknown is not absent
    Mutant(8, "spindle.model.replica_index:ReplicaIndex.known", _YES, (_U + "test_healing.py",)),
    Mutant(8, "spindle.disks.rules:_unknown", _NO, (_U + "test_disks_rules.py",)),
    Mutant(8, "spindle.model.restart_safety:_what_is_unknown", always(""), (_U + "test_rolling.py",)),
    Mutant(8, "spindle.evacuation.fence:_unknown", _NO, (_U + "test_healing.py",), mend=True),
    Mutant(8, "spindle.disks.health:Health.surely_bad", around(lambda _, said: said.bad), (_U + "test_disks_health.py",)),
    Mutant(8, "spindle.model.agents:Agent.alive", _YES, (_U + "test_clocks_plan.py",)),
    Mutant(8, "spindle_operator.agents:AgentMonitor._agent", around(_silent_by_its_clock), (_U + "test_operator_agents.py",), mend=True),
    Mutant(8, "spindle.disks.broker_disks:BrokerDisk.operator_time", around(lambda _, __, text: seconds(text)), (_U + "test_clocks_plan.py",), mend=True),
    Mutant(8, "spindle.reconcile.plan:_NEEDED", constant(frozenset()), (_U + "test_plan.py",)),
    # 9: few disks at once
    Mutant(9, "spindle.disks.correlated_failures:may_act_on_failures", _NO, (_U + "test_disks_health.py",)),
    Mutant(9, "spindle.evacuation.fence:stalls_alone", _NO, (_U + "test_healing.py",)),
    Mutant(9, "spindle.disks.broker_disks:stalled_together", always(list), (_U + "test_hangs.py",), mend=True),
    Mutant(9, "spindle_agent.probing.timer_lag:starved", _FALSE, (_U + "test_starved.py",), mend=True),
    Mutant(8, "spindle.model.freshness:too_old", _NO, (_U + "test_freshness.py",)),
    Mutant(8, "spindle.model.watched:answers", _YES, (_U + "test_freshness.py",)),
    Mutant(8, "spindle.model.watched:resumes", _YES, (_U + "test_freshness.py",)),
    Mutant(8, "spindle_operator.report:writes", _FALSE, (_U + "test_operator_loop.py",)),
    Mutant(8, "spindle_operator.report:Events.news", _FALSE, (_U + "test_operator_loop.py",)),
    # 10: what is changed can be put back
    Mutant(10, "spindle.moves.rules:throttle_known", _NO, (_U + "test_moves_execute.py",)),
    Mutant(10, "spindle.moves.settings:_is_ours", _YES, (_U + "test_moves_execute.py",)),
    Mutant(10, "spindle.moves.journal_record:reconcile_cleanup", _YES, (_U + "test_moves_step.py",)),
    Mutant(10, "spindle.config.broker_settings:put_back", _YES, (_U + "test_dynamic_config.py",)),
    Mutant(10, "spindle.moves.journal_record:find_journal", _YES, (_U + "test_journal_lost.py",), mend=True),
    Mutant(10, "spindle.moves.journal_record:write_journal", around(_without_finalizer), (_U + "test_journal_lost.py",), mend=True),
    # 11: data is deleted only when asked for
    Mutant(11, "spindle.reconcile.deletion:reconcile_deletion", around(_claims_asked_for), (_U + "test_plan.py",)),
    Mutant(11, "spindle.model.claim_volumes:is_reserved", _YES, (_U + "test_reserved_volumes.py",)),
    Mutant(8, "spindle.brokers.reservations:release_disk", _FALSE, (_U + "test_reserved_volumes.py",)),
    Mutant(11, "spindle.topics.deletion:_stays", _NO, (_U + "test_topics.py",)),
    Mutant(11, "spindle.topics.deletion:_is_gone_or_not_ours", _NO, (_U + "test_topics.py",)),
    # 12: nobody gets in uninvited
    Mutant(12, "spindle.api.owned:owned", _NO, (_U + "test_api_crd.py",)),
    Mutant(12, "spindle.config.server_properties:_common", around(_asks_nobody), (_U + "test_config.py",)),
    # 13: one birth
    Mutant(13, "spindle.disks.rules:may_format_voter", _NO, (_U + "test_disks_rules.py",)),
    Mutant(13, "spindle.brokers.cluster_identity:_from_claims", _NO, (_U + "test_plan.py",)),
    Mutant(13, "spindle.disks.preflight_findings:_until_the_quorum_stands", _NO, (_U + "test_plan.py",)),
    # 14: a node is gone only when somebody said so
    Mutant(14, "spindle.model.node_loss:NodeLossClaim.agreed", around(lambda _, said: said.evidence is not None), (_U + "test_node_loss_evidence.py",)),
    Mutant(14, "spindle.model.node_loss:find_evidence", around(_silence_is_evidence), (_U + "test_node_loss_evidence.py", _U + "test_node_loss.py")),
    # 15: no start without a dir
    Mutant(15, "spindle.disks.judge:left_out", always(dict), (_U + "test_dir_list.py",)),
    Mutant(15, "spindle.model.dir_list:newest", _oldest, (_U + "test_dir_list.py",), mend=True),
    Mutant(15, "spindle.brokers.records:_unseen", _FALSE, (_U + "test_readoption.py",), mend=True),
    Mutant(15, "spindle.brokers.records:_had_left", _YES, (_U + "test_readoption.py",), mend=True),
    Mutant(15, "spindle.storage.readoption:_has_placeholder", _YES, (_U + "test_readoption.py",)),
    Mutant(15, "spindle_operator.writing:Writer._over", _without_guard, (_U + "test_operator_act.py",), mend=True),
    Mutant(15, "spindle_operator.act:_ends_pass", around(_goes_on_after_records), (_U + "test_operator_act.py",), mend=True),
    # 16: only what is ours
    Mutant(16, "spindle.model.objects:owned_by", _YES, (_U + "test_controllers_plan.py", _U + "test_plan.py")),
    Mutant(16, "spindle.model.ownership:Owners.hold", _YES, (_U + "test_owned.py",)),
    Mutant(16, "spindle_agent.volume:_check_folder", _NO, (_U + "test_agent_volume.py",)),
    # 17: every way out leads on
    Mutant(17, "spindle.disks.disk_inventory:DiskInventory.given_up_on", _NOBODY, (_U + "test_healing_plan.py",), mend=True),
    Mutant(17, "spindle.config.settings_check:problems", always(()), (_U + "test_settings.py",), mend=True),
    Mutant(
        17, "spindle.proposals.lifecycle:next_step", around(_approved_first), (_U + "test_proposals.py", _U + "test_proposals_passes.py"), mend=True,
        also=(("spindle.moves.leadership:set_preferred_leaders", around(_order_before_election)),),
    ),
)  # fmt: skip

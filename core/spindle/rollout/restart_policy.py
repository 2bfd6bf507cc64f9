"""Whether a node may go down now: safety rule "no restart below min.insync.replicas" (``docs/safety.md``) and what else holds it back."""

from collections.abc import Mapping
from dataclasses import dataclass

from spindle.api import names
from spindle.evacuation.deadlocks import let_go
from spindle.model.restart_safety import RestartSafety
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting
from spindle.rollout.controllers import controller_may_go_down
from spindle.rollout.stalled_rollout import copies_between_disks
from spindle.rollout.starts import loads


@dataclass(frozen=True)
class RestartPolicy:
    """Which nodes may go down.

    Attributes:
        rolling: the partitions' ISR, which every restart is checked against.
        refused: nodes that wait for another reason than min.insync.replicas.
    """

    rolling: RestartSafety
    refused: Mapping[int, Waiting]

    def ask(self, state: ClusterState, node_id: int, down: frozenset[int], *, change: bool) -> RestartVerdict:
        """Whether a node may go down while those in ``down`` are down.

        A restart for a change waits while the broker loads its logs or copies replicas between its disks. For other restarts an
        administrator can override the refusal (see `spindle.evacuation.deadlocks`).
        """
        if change:
            busy = loads(state, node_id) or copies_between_disks(state, node_id)
            if busy is not None:
                return RestartVerdict(busy)
        if node_id in self.refused:
            return RestartVerdict(self.refused[node_id])
        if node_id >= names.FIRST_CONTROLLER_ID:
            return controller_may_go_down(state.kafka.quorum, node_id, down - {node_id})
        verdict = self.rolling.may_go_down(node_id, down - {node_id})
        return verdict if change else let_go(state, self.rolling, node_id, verdict, down - {node_id})

"""Whether a node may go down now: rule 2, what else was found to hold it, and for a change what it would disturb."""

from collections.abc import Mapping
from dataclasses import dataclass

from spindle.cluster import names
from spindle.cluster.waiting import Waiting
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.deadlocks import let_go
from spindle.reconcile.steps.stalled_rollout import copies_between_disks
from spindle.reconcile.steps.starts import loads
from spindle.rolling.brokers import RestartSafety
from spindle.rolling.controllers import controller_may_go_down
from spindle.rolling.verdict import RestartVerdict


@dataclass(frozen=True)
class RestartPolicy:
    """Who may go down, and who is back.

    Attributes:
        refused: nodes that have to wait for another reason than rule 2.
    """

    rolling: RestartSafety
    refused: Mapping[int, Waiting]

    def ask(self, state: ClusterState, node_id: int, down: frozenset[int], *, change: bool) -> RestartVerdict:
        """Whether a node may go down besides others; for a change it neither loads its logs nor copies between its disks.

        A person's word lets one go that goes for more than a change (see `spindle.reconcile.steps.deadlocks`).
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

"""The model cluster with a quorum that changes as KIP-853 has it: one voter at a time, by its id and its disk's."""

import json
from dataclasses import dataclass, field
from typing import Any

from spindle.api import names
from spindle.model.actions import Action, AddVoter, Create, MarkDown, Patch, RemoveVoter
from spindle.model.layout import METADATA_DISK
from spindle.model.view import Quorum, Voter
from spindle.reconcile.plan import ReconcilePlan
from tests.model.store import ConflictError
from tests.model.world import World


@dataclass
class QuorateWorld(World):
    """Voters by id, with the directory id that each votes with; empty before the birth."""

    voters: dict[int, str] = field(default_factory=dict)
    leader: int | None = None
    changes: list[str] = field(default_factory=list)
    ended: bool = False  # whether a conflict has ended the pass

    def live(self) -> dict[int, str]:
        """Controllers that run, with the directory id of the disk that they have."""
        found = {}
        for node_id in self.running("controller"):
            pod = self.get("Pod", names.pod_name("demo", node_id))
            found[node_id] = str(
                json.loads(pod["metadata"]["annotations"][names.ANN_DISKS])[0]["directoryId"]
            )
        return found

    def quorum(self) -> Quorum | None:
        live = self.live()
        if not self.voters and (identity := self.objects.get(("ConfigMap", "demo-identity"))) is not None:
            born = {v["id"]: v["directoryId"] for v in json.loads(identity["data"]["voters"])}
            if born.items() <= live.items():
                self.voters = born
        voting = {i for i, directory_id in self.voters.items() if live.get(i) == directory_id}
        if 2 * len(voting) <= len(self.voters):
            self.leader = None
            return None
        if self.leader not in voting:
            self.leader = min(voting)
        reading = [
            (i, directory_id) for i, directory_id in live.items() if self.voters.get(i) != directory_id
        ]
        return Quorum(
            leader=self.leader,
            voters=tuple(Voter(i, d, i in voting, 0 if i in voting else 123) for i, d in self.voters.items()),
            observers=tuple(Voter(i, d, caught_up=True, lag=0) for i, d in reading),
        )

    def reconcile(self, stop_after: int | None = None) -> ReconcilePlan:
        self.ended = False
        return super().reconcile(stop_after)

    def act(self, action: Action) -> None:
        """As the edge does it: whose guard does not hold is left to the next pass, and some of them end this one."""
        if self.ended:
            return
        try:
            self._carry_out(action)
        except ConflictError:
            self.ended = isinstance(action, Create | Patch | MarkDown | AddVoter | RemoveVoter)

    def _carry_out(self, action: Action) -> None:
        if not isinstance(action, AddVoter | RemoveVoter):
            super().act(action)
            return
        self.writes += 1
        self._serial += 1
        quorum = self.quorum()
        if quorum is None:
            raise ConflictError("no quorum")
        if isinstance(action, AddVoter):
            self._add(action)
        else:
            self._remove(action)
        assert self.quorum() is not None, f"a change took the majority away: {self.changes}"

    def _add(self, action: AddVoter) -> None:
        assert self.live().get(action.controller) == action.directory_id
        assert action.host == f"demo-controller-{action.controller - 9000}.demo-controllers.kafka.svc"
        if action.controller in self.voters:
            raise ConflictError("a voter of that id is there")
        self.voters[action.controller] = action.directory_id
        self.changes.append(f"+{action.controller}")

    def _remove(self, action: RemoveVoter) -> None:
        if self.voters.get(action.controller) != action.directory_id:
            return
        del self.voters[action.controller]
        self.changes.append(f"-{action.controller}")

    def _used(self, claim: str) -> bool:
        """Kubernetes' protection of claims counts only pods that have a node."""
        return any(
            (v.get("persistentVolumeClaim") or {}).get("claimName") == claim
            for pod in self.all("Pod")
            if pod["spec"].get("nodeName")
            for v in pod["spec"]["volumes"]
        )

    def _schedule(self, pod: dict[str, Any]) -> None:
        claims = [
            v["persistentVolumeClaim"]["claimName"]
            for v in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in v
        ]
        if all(("PersistentVolumeClaim", claim) in self.objects for claim in claims):
            super()._schedule(pod)

    def _fits(self, pod: dict[str, Any], node: dict[str, Any], claims: list[dict[str, Any]]) -> bool:
        required = (pod["spec"].get("affinity", {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []}
        )
        parts = [part for term in required["nodeSelectorTerms"] for part in term.get("matchExpressions", ())]
        avoided = [part["values"] for part in parts if part["operator"] == "NotIn"]
        host = node["metadata"]["labels"]["kubernetes.io/hostname"]
        return not any(host in hosts for hosts in avoided) and super()._fits(pod, node, claims)

    # -- what happens to controllers -----------------------------------------------------------------------------

    def volume_of(self, node_id: int) -> str:
        claim = self.get("PersistentVolumeClaim", names.claim_name("demo", node_id, METADATA_DISK))
        return str(claim["spec"]["volumeName"])

    def end(self, node_id: int) -> None:
        """Its pod is gone, as after a kill."""
        self.objects.pop(("Pod", names.pod_name("demo", node_id)), None)

    def blank(self, node_id: int) -> None:
        """A new disk stands in its place."""
        self.end(node_id)
        self.formatted[self.volume_of(node_id)] = {"fs": f"fs-{node_id}-{self._serial}"}

    def node_of(self, node_id: int) -> str:
        """The node where its disk is."""
        affinity: Any = self.get("PersistentVolume", self.volume_of(node_id))["spec"]["nodeAffinity"]
        return str(affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0])

    def move_disk(self, node_id: int, node: str) -> None:
        """Its disk is on another node from now on, as if it had come there while nobody held that node."""
        self.end(node_id)
        affinity: Any = self.get("PersistentVolume", self.volume_of(node_id))["spec"]["nodeAffinity"]
        affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = [node]

    def lose_node(self, node_id: int) -> str:
        """The node where its disk is was deleted; Kubernetes takes the pods with it. Returns its name."""
        node = self.node_of(node_id)
        del self.objects["Node", node]
        for pod in self.all("Pod"):
            if pod["spec"].get("nodeName") == node:
                del self.objects["Pod", pod["metadata"]["name"]]
        return node

    def healthy(self, *ids: int) -> bool:
        """Whether just these vote, all of them live."""
        return set(self.voters) == set(ids) and self.voters.items() <= self.live().items()

"""Carries out what the core decides about a quorum, on real controllers. It remembers nothing but what the operator has on record."""

import contextlib

from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError

from spindle.controllers.next_step import Member, next_step
from spindle.controllers.quorum_steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
    Step,
)
from spindle.model.layout import METADATA_DISK
from spindle.model.view import Quorum
from spindle.model.waiting import Waiting
from spindle_operator import quorum as orders
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for


class Conductor:
    """One cluster's controllers.

    Attributes:
        record: node id → directory id, of the controllers that there are to be.
        done: what was done, in order, each with the leader at that time.
        impatient: whether orders are given up a millisecond after they were sent, as by an operator that is killed then.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.record = {voter.node_id: voter.directory_id for voter in cluster.voters}
        self.done: list[tuple[Step, int]] = []
        self.impatient = False
        self._generation = 0

    def reach(self, wanted: int, seconds: float = 180.0) -> list[Step]:
        """Take one step after the other until nothing is left to do; returns them."""
        before = len(self.done)
        wait_for(f"{wanted} controllers", lambda: self.step(wanted), seconds, pause=0.5)
        return [step for step, _ in self.done[before:]]

    def step(self, wanted: int) -> bool:
        """Look, decide, act. True when all is as it should be."""
        quorum = self.cluster.view().quorum
        members = [self._member(node_id, directory_id) for node_id, directory_id in self.record.items()]
        # What a claim carries follows the record at once here, since a slot is both.
        carried = {
            node.node_id: node.slots[METADATA_DISK].directory_id
            for node in self.cluster.nodes.values()
            if node.controller
        }
        found = next_step(quorum, members, wanted, carried=carried)
        if found is None or isinstance(found, Waiting) or quorum is None:
            return found is None and self._whole(quorum) and not any(member.lost for member in members)
        self.done.append((found, quorum.leader))
        self._act(found)
        return False

    def _whole(self, quorum: Quorum | None) -> bool:
        voters = {v.id: v.directory_id for v in quorum.voters if v.caught_up} if quorum is not None else {}
        return voters == self.record

    def _member(self, node_id: int, directory_id: str) -> Member:
        node = self.cluster.nodes[node_id]
        up = node.kafka is not None and node.kafka.poll() is None
        lost = ""
        if not up and node.slots[METADATA_DISK].fs_uuid is not None:
            state = node.inspect()[METADATA_DISK]["state"]
            lost = "its disk is blank" if state == "blank" else ""
        return Member(node_id, directory_id, up, lost)

    def _act(self, step: Step) -> None:
        match step:
            case AdmitControllers():
                for node_id in step.ids:
                    self._admit(node_id)
            case AddVoterStep() | RemoveVoterStep():
                self._order(step)
            case DeleteController():
                self.cluster.nodes[step.id].stop()
                del self.record[step.id]
            case RecreateController():
                self._generation += 1
                node = self.cluster.nodes[step.id]
                directory_id = self.cluster.directory_id(step.id, METADATA_DISK, self._generation)
                node.slots[METADATA_DISK].directory_id = self.record[step.id] = directory_id
                node.slots[METADATA_DISK].fs_uuid = None
                node.up()
            case ReaddVoter():
                self.record[step.id] = step.directory_id

    def _admit(self, node_id: int) -> None:
        node = self.cluster.nodes.get(node_id) or self.cluster.add(node_id, [METADATA_DISK])
        self.record[node_id] = node.slots[METADATA_DISK].directory_id
        node.up()

    def _order(self, step: AddVoterStep | RemoveVoterStep) -> None:
        cluster_id, node = self.cluster.cluster_id, self.cluster.nodes[step.id]
        # What is not committed in time is left open, as the operator leaves it.
        left_open: tuple[type[KafkaError], ...] = (
            (KafkaError,) if self.impatient else (KafkaTimeoutError, RequestTimedOutError)
        )
        link = self.cluster.link()
        try:
            if self.impatient:
                link.timeout_ms = 1
            # The next look shows what came of an order that was given up.
            with contextlib.suppress(*left_open):
                if isinstance(step, AddVoterStep):
                    orders.add_voter(link, cluster_id, step.id, step.directory_id, node.address)
                else:
                    orders.remove_voter(link, cluster_id, step.id, step.directory_id)
        finally:
            link.close()

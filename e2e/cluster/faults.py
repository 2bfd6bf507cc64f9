"""Faults on a running testbed: nodes, disks, cables."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from e2e.cluster import net
from e2e.cluster.disk_faults import DiskFaults
from e2e.cluster.disks import Rack


class Faults(DiskFaults, ABC):
    """Faults. Nodes are counted from 1; a disk is its number, from 0, or the name of its slot."""

    @abstractmethod
    def wait_ready(self, indices: Sequence[int], seconds: float = 120) -> None:
        """Wait until nodes are ready, as reported since they were last powered on."""

    # Nodes

    def node_off(self, index: int, *, lose_unsynced: bool = False) -> None:
        """Power a node off. Kubernetes notices after about 20 s.

        Args:
            index: the node.
            lose_unsynced: data that was written but not synced is lost, as in a real power failure. Otherwise it is kept.
        """
        node = self.node(index)
        if lose_unsynced and node.is_on():
            for disk in Rack(node.layout).all():
                self.shut_down(node, disk)
        # A power cycle makes a hung disk answer again; until then no process that waits for it could die.
        for file, mode in self.enclosure.sick().items():
            if mode == "hang" and file.startswith(f"{node.layout.name}/"):
                self.enclosure.order(file, "well")
        node.switch_off()

    def node_on(self, index: int, *, wait: bool = True) -> None:
        """Power a node on, and wait until it is ready."""
        node = self.node(index)
        if not node.is_on():
            node.switch_on()
        if wait:
            self.wait_ready([index])

    # Cables

    def link_down(self, index: int) -> None:
        """Unplug a node's network cable."""
        net.set_link(self.node(index).layout, up=False)

    def link_up(self, index: int) -> None:
        """Plug a node's network cable in."""
        net.set_link(self.node(index).layout, up=True)

    def partition(self, one: int, other: int, *, both: bool = True) -> None:
        """Drop all packets between two nodes, or, if not both, those from the one to the other."""
        net.partition(self.node(one).layout, self.node(other).layout, both=both)

    def heal_partitions(self) -> None:
        """Undo all partitions."""
        net.heal(self.layout)

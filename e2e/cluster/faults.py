"""What can be done to a testbed that stands: nodes, disks, cables."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from e2e.cluster import net
from e2e.cluster.console import say
from e2e.cluster.disks import Disk, Rack
from e2e.cluster.enclosure import Enclosure
from e2e.cluster.layout import Layout
from e2e.cluster.nodes import Node
from e2e.cluster.system import CommandError
from e2e.cluster.target import Target

_FILL: Final = ".testbed-fill"


class Faults(Target, ABC):
    """Faults. Nodes are counted from 1; a disk is its number, from 0, or the name of its slot."""

    layout: Layout
    enclosure: Enclosure

    @abstractmethod
    def node(self, index: int) -> Node:
        """A node by its number."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """All nodes, on or off."""

    @abstractmethod
    def wait_ready(self, indices: Sequence[int], seconds: float = 120) -> None:
        """Wait until nodes are ready, as reported since they were last switched on."""

    # Nodes

    def node_off(self, index: int, *, lose_unsynced: bool = False) -> None:
        """Cut a node's power. It takes Kubernetes about 20 s to notice.

        Args:
            index: the node.
            lose_unsynced: what was written but not synced is lost, as when real power goes. Else it is kept.
        """
        node = self.node(index)
        if lose_unsynced and node.is_on():
            for disk in Rack(node.layout).all():
                self._shut_down(node, disk)
        # A power cycle makes a disk that hangs answer again; until then nothing that waits for it could die.
        for file, mode in self.enclosure.sick().items():
            if mode == "hang" and file.startswith(f"{node.layout.name}/"):
                self.enclosure.order(file, "well")
        node.switch_off()

    def node_on(self, index: int, *, wait: bool = True) -> None:
        """Switch a node on again, and wait until it is ready."""
        node = self.node(index)
        if not node.is_on():
            node.switch_on()
        if wait:
            self.wait_ready([index])

    # Disks

    def disk_fail(self, index: int, disk: int | str) -> None:
        """Let a disk die: from now on everything on it fails with an I/O error, for everyone."""
        node = self.node(index)
        self._shut_down(node, self._disk(node, disk))

    def disk_swap(self, index: int, disk: int | str, *, new_volume: bool = False) -> Disk:
        """Pull a disk and put a new, blank one into its slot. Pods that use the old one keep it until they end.

        Args:
            index: the node.
            disk: its slot.
            new_volume: the new disk is mounted elsewhere and is a PersistentVolume of its own; the old volume's
                folder is gone. Else it is mounted where the old one was, behind the same PersistentVolume.

        Returns:
            The new disk.
        """
        node = self.node(index)
        rack = Rack(node.layout)
        old = self._disk(node, disk)
        new = old.successor(node.layout, own_volume=new_volume)
        rack.put(new)
        if node.is_on():
            node.run("umount", "--lazy", old.mount)
            if new_volume:
                node.run("rmdir", old.mount)
            node.run("mkdir", "-p", new.mount)
            node.run("mount", "-o", "loop", node.layout.served / new.image, new.mount)
        if new_volume:
            self.apply(new.persistent_volume(node.layout))
        return new

    def disk_fill(self, index: int, disk: int | str, percent: int = 95) -> None:
        """Fill a disk up to this percentage of its size, with one file that takes no room on the machine."""
        node = self.node(index)
        mount = self._disk(node, disk).mount
        node.run("rm", "-f", f"{mount}/{_FILL}")
        size, free = map(int, node.run("df", "--block-size=1", "--output=size,avail", mount).split()[-2:])
        wanted = step = free - size * (100 - percent) // 100
        done = 0
        # The file system needs some of the room itself, how much only it knows: the last bit by halves.
        while done < wanted and step >= 4096:
            part = min(step, wanted - done)
            try:
                node.run("fallocate", "--offset", str(done), "--length", str(part), f"{mount}/{_FILL}")
                done += part
            except CommandError:
                step //= 2

    def disk_slow(self, index: int, disk: int | str, milliseconds: int = 200) -> None:
        """Let every request to a disk take so much longer."""
        self._order(index, disk, "slow", milliseconds)

    def disk_hang(self, index: int, disk: int | str) -> None:
        """Let a disk not answer any more; what asks it waits, and cannot even be killed."""
        self._order(index, disk, "hang")

    def disk_error(self, index: int, disk: int | str) -> None:
        """Let a disk answer every request with an error. Unlike after ``disk_fail``, what is cached is still read."""
        self._order(index, disk, "error")

    def disk_heal(self, index: int, disk: int | str) -> None:
        """Make a disk well again, with all that is on it: undoes all faults.

        If the file system was shut down meanwhile, pods must be made anew to see the disk again.
        """
        self._order(index, disk, "well")
        node = self.node(index)
        found = self._disk(node, disk)
        try:
            node.run("ls", found.mount)
        except CommandError:
            self._remount(node, found)
        node.run("rm", "-f", f"{found.mount}/{_FILL}")

    def disks_reset(self) -> None:
        """Put new, blank disks into all slots and make all PersistentVolumes anew, as after ``up``.

        For the time between two scenarios; no pod may use a volume any more.
        """
        say("blank disks and new volumes for all nodes")
        self.kubectl("delete", "persistentvolume", "--all", "--wait=false")
        for node in self.nodes():
            for disk in Rack(node.layout).all():
                self.disk_swap(node.layout.index, disk.slot)
        self.kubectl("wait", "persistentvolume", "--all", "--for=delete", "--timeout=60s", check=False)
        volumes = [
            disk.persistent_volume(node.layout) for node in self.nodes() for disk in Rack(node.layout).all()
        ]
        self.apply(*volumes)

    def disk_of(self, volume: str) -> tuple[int, str]:
        """Which node's which slot a PersistentVolume stands for.

        Raises:
            KeyError: none.
        """
        for node in self.nodes():
            for disk in Rack(node.layout).all():
                if disk.volume == volume:
                    return node.layout.index, disk.slot
        raise KeyError(f"no disk is behind the volume {volume}")

    # Cables

    def link_down(self, index: int) -> None:
        """Pull a node's network cable."""
        net.set_link(self.node(index).layout, up=False)

    def link_up(self, index: int) -> None:
        """Plug a node's network cable in again."""
        net.set_link(self.node(index).layout, up=True)

    def partition(self, one: int, other: int, *, both: bool = True) -> None:
        """Let nothing pass between two nodes; or, if not both, nothing from the one to the other."""
        net.partition(self.node(one).layout, self.node(other).layout, both=both)

    def heal_partitions(self) -> None:
        """Undo all partitions."""
        net.heal(self.layout)

    # Inner parts

    def _order(self, index: int, disk: int | str, mode: str, milliseconds: int = 0) -> None:
        node = self.node(index)
        image = self._disk(node, disk).image
        self.enclosure.order(f"{node.layout.name}/{image}", mode, milliseconds)

    def _disk(self, node: Node, disk: int | str) -> Disk:
        slot = f"disk{disk}" if isinstance(disk, int) or disk.isdigit() else disk
        return Rack(node.layout).get(slot)

    @staticmethod
    def _shut_down(node: Node, disk: Disk) -> None:
        """Shut the file system down without writing its log: what is not on the disk yet never will be."""
        node.run("xfs_io", "-x", "-c", "shutdown", disk.mount)

    @staticmethod
    def _remount(node: Node, disk: Disk) -> None:
        """Mount a disk anew while pods may still hold the dead mount.

        The ordinary way finds the loop device that it has already, and with it the dead file system. A second loop
        device is a second disk to the kernel, which has to be told that the same file system twice is meant.
        """
        node.run("umount", "--lazy", disk.mount)
        loop = node.run("losetup", "--find", "--show", node.layout.served / disk.image).strip()
        options = "nouuid" if disk.file_system == "xfs" else "defaults"
        node.run("mount", "-o", options, loop, disk.mount)
        node.run("losetup", "--detach", loop)  # freed when it is unmounted

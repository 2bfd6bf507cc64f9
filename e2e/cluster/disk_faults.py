"""Disk faults on a running testbed."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Final

from e2e.cluster.console import say
from e2e.cluster.disks import Disk, Rack
from e2e.cluster.enclosure import Enclosure
from e2e.cluster.layout import STANDARD_DISK, Layout
from e2e.cluster.nodes import Node
from e2e.cluster.system import CommandError
from e2e.cluster.target import Target, Unsupported

_FILL: Final = ".testbed-fill"


class DiskFaults(Target, ABC):
    """Disk faults. Nodes are counted from 1; a disk is its number, from 0, or the name of its slot."""

    layout: Layout
    enclosure: Enclosure

    @abstractmethod
    def node(self, index: int) -> Node:
        """A node by its number."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """All nodes, on or off."""

    def disk_fail(self, index: int, disk: int | str) -> None:
        """Make a disk fail: from now on every access to it gets an I/O error."""
        node = self.node(index)
        self.shut_down(node, self._disk(node, disk))

    def disk_freeze(self, index: int, disk: int | str) -> None:
        """Freeze a disk's file system: every write waits from now on, and the waiting processes cannot be killed."""
        node = self.node(index)
        node.run("fsfreeze", "--freeze", self._disk(node, disk).mount)

    def disk_read_only(self, index: int, disk: int | str) -> None:
        """Make the kernel remount a disk read-only, as it does when it finds an inconsistent ext4.

        Raises:
            Unsupported: the disk has another file system; XFS is shut down in such a case, as by ``disk_fail``.
        """
        node = self.node(index)
        found = self._disk(node, disk)
        if found.file_system != "ext4":
            raise Unsupported(
                f"only ext4 becomes read-only under its users, and {found.slot} has {found.file_system}"
            )
        device = node.run("findmnt", "--noheadings", "--output=SOURCE", found.mount).strip()
        trigger = f"/sys/fs/ext4/{device.removeprefix('/dev/')}/trigger_fs_error"
        node.run("sh", "-c", f"echo testbed > {trigger}")

    def disk_pull(self, index: int, disk: int | str) -> Disk:
        """Pull a disk; an empty folder remains at its mount point. Pods that use the disk keep it until they end.

        Returns:
            The disk, for its serial number; ``disk_put`` puts it back.
        """
        node = self.node(index)
        found = self._disk(node, disk)
        _unmount(node, found)
        return found

    def disk_put(self, index: int, disk: int | str, serial: int | None = None) -> Disk:
        """Put a former disk of a slot back; the current disk is pulled, and kept.

        Args:
            index: the node.
            disk: the slot.
            serial: which of the former disks of the slot (a swap must have kept it); None for the last one.
        """
        node = self.node(index)
        rack = Rack(node.layout)
        now = self._disk(node, disk)
        chosen = rack.kept(now, now.serial if serial is None else serial)
        _unmount(node, now)
        rack.place(chosen)
        _mount(node, chosen)
        if not _answers(node, chosen):  # it failed before it was pulled, and a process still uses it
            self._remount(node, chosen)
        return chosen

    def disk_swap(self, index: int, disk: int | str, *, new_volume: bool = False, keep: bool = False) -> Disk:
        """Pull a disk and put a new, blank one into its slot. Pods that use the old one keep it until they end.

        Args:
            index: the node.
            disk: its slot.
            new_volume: the new disk is mounted elsewhere and gets a new PersistentVolume; the folder of the old volume
                is removed. Otherwise it is mounted where the old one was, for the same PersistentVolume.
            keep: the old one is kept: ``disk_put`` with its serial number puts it back.

        Returns:
            The new disk.
        """
        node = self.node(index)
        rack = Rack(node.layout)
        old = self._disk(node, disk)
        new = old.successor(node.layout, own_volume=new_volume, serial=rack.next_serial(old.slot))
        rack.put(new, keep=keep)
        if node.is_on():
            _unmount(node, old)
            if new_volume:
                node.run("rmdir", old.mount)
            _mount(node, new)
        if new_volume:
            self.apply(new.persistent_volume(node.layout))
        return new

    def disk_fill(self, index: int, disk: int | str, percent: int = 95) -> None:
        """Fill a disk up to this percentage of its size, with one file that uses no space on the machine."""
        node = self.node(index)
        mount = self._disk(node, disk).mount
        node.run("rm", "-f", f"{mount}/{_FILL}")
        size, free = map(int, node.run("df", "--block-size=1", "--output=size,avail", mount).split()[-2:])
        wanted = step = free - size * (100 - percent) // 100
        done = 0
        # The file system needs an unknown part of the space itself: approach the target by halves.
        while done < wanted and step >= 4096:
            part = min(step, wanted - done)
            try:
                node.run("fallocate", "--offset", str(done), "--length", str(part), f"{mount}/{_FILL}")
                done += part
            except CommandError:
                step //= 2

    def disk_slow(self, index: int, disk: int | str, milliseconds: int = 200) -> None:
        """Add this much time to every request to a disk."""
        self._order(index, disk, "slow", milliseconds)

    def disk_hang(self, index: int, disk: int | str) -> None:
        """Make a disk hang: requests wait, and the waiting processes cannot be killed."""
        self._order(index, disk, "hang")

    def disk_error(self, index: int, disk: int | str) -> None:
        """Make every request to a disk fail. Unlike after ``disk_fail``, cached data can still be read."""
        self._order(index, disk, "error")

    def disk_heal(self, index: int, disk: int | str) -> None:
        """Heal a disk, with all its data: undoes all faults.

        If the file system was shut down meanwhile, pods must be recreated to see the disk again.
        """
        self._order(index, disk, "well")
        node = self.node(index)
        found = self._disk(node, disk)
        _thaw(node, found)
        if not _answers(node, found):
            self._remount(node, found)
        node.run("rm", "-f", f"{found.mount}/{_FILL}")

    def disks_reset(self, file_system: str | None = None, size: int | None = None) -> None:
        """Put new, blank disks into all slots and recreate all PersistentVolumes, as after ``up``.

        For the time between two scenarios; no pod may use a volume any more.

        Args:
            file_system: xfs or ext4; None for the current one of each slot.
            size: bytes of each data disk; None for the current size of each.
        """
        say("blank disks and new volumes for all nodes")
        self.kubectl("delete", "persistentvolume", "--all", "--wait=false")
        for node in self.nodes():
            rack = Rack(node.layout)
            for disk in rack.all():
                self._order(node.layout.index, disk.slot, "well")
                larger = size if size is not None and disk.slot != STANDARD_DISK else disk.size
                rack.place(replace(disk, file_system=file_system or disk.file_system, size=larger))
                self.disk_swap(node.layout.index, disk.slot)
            rack.throw_away()
        self.kubectl("wait", "persistentvolume", "--all", "--for=delete", "--timeout=60s", check=False)
        volumes = [
            disk.persistent_volume(node.layout) for node in self.nodes() for disk in Rack(node.layout).all()
        ]
        self.apply(*volumes)

    def disk_of(self, volume: str) -> tuple[int, str]:
        """Node and slot of a PersistentVolume.

        Raises:
            KeyError: there is none.
        """
        for node in self.nodes():
            for disk in Rack(node.layout).all():
                if disk.volume == volume:
                    return node.layout.index, disk.slot
        raise KeyError(f"no disk belongs to volume {volume}")

    # Implementation

    def _order(self, index: int, disk: int | str, mode: str, milliseconds: int = 0) -> None:
        node = self.node(index)
        image = self._disk(node, disk).image
        self.enclosure.order(f"{node.layout.name}/{image}", mode, milliseconds)

    def _disk(self, node: Node, disk: int | str) -> Disk:
        slot = f"disk{disk}" if isinstance(disk, int) or disk.isdigit() else disk
        return Rack(node.layout).get(slot)

    @staticmethod
    def shut_down(node: Node, disk: Disk) -> None:
        """Shut the file system down without writing its log: data that is not on the disk yet is lost."""
        node.run("xfs_io", "-x", "-c", "shutdown", disk.mount)  # ext4 has the same command

    @staticmethod
    def _remount(node: Node, disk: Disk) -> None:
        """Mount a disk again while pods may still hold the dead mount.

        A normal mount finds the loop device that exists already, and with it the dead file system. A second loop
        device is a second disk to the kernel, which must be told that mounting the same file system twice is intended.
        """
        node.run("umount", "--lazy", disk.mount)
        loop = node.run("losetup", "--find", "--show", node.layout.served / disk.image).strip()
        options = "nouuid" if disk.file_system == "xfs" else "defaults"
        node.run("mount", "-o", options, loop, disk.mount)
        node.run("losetup", "--detach", loop)  # freed when it is unmounted


def _mount(node: Node, disk: Disk) -> None:
    node.run("mkdir", "-p", disk.mount)
    node.run("mount", "-o", "loop", node.layout.served / disk.image, disk.mount)


def _unmount(node: Node, disk: Disk) -> None:
    """Unmount a disk for the node; pods that use it keep it. A frozen one could not be thawed later."""
    _thaw(node, disk)
    with suppress(CommandError):  # it was pulled before
        node.run("umount", "--lazy", disk.mount)


def _thaw(node: Node, disk: Disk) -> None:
    with suppress(CommandError):  # it was not frozen
        node.run("fsfreeze", "--unfreeze", disk.mount)


def _answers(node: Node, disk: Disk) -> bool:
    """Whether a disk is mounted and its file system accepts writes (a dead ext4 still lists cached data)."""
    try:
        node.run("mountpoint", "--quiet", disk.mount)
        node.run("sync", "--file-system", disk.mount)
    except CommandError:
        return False
    return True

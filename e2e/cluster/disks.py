"""The disks of a node: sparse images, one per slot; a swap puts another image into the slot."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from e2e.cluster.layout import DISK_CLASS, DISKS_FOLDER, STANDARD_CLASS, STANDARD_DISK, NodeLayout
from e2e.cluster.system import run


@dataclass(frozen=True)
class Disk:
    """The disk in a slot.

    Attributes:
        slot: the slot's name: disk0, disk1, …, or the one for small volumes.
        size: in bytes.
        file_system: xfs or ext4.
        serial: number of this disk among those of the slot, from 1; part of the image's name.
        mount: mount point on the node.
        volume: name of its PersistentVolume.
    """

    slot: str
    size: int
    file_system: str
    serial: int
    mount: str
    volume: str

    @classmethod
    def first(cls, node: NodeLayout, slot: str, size: int, file_system: str) -> Self:
        """The first disk of a slot of a new node."""
        return cls(slot, size, file_system, 1, str(DISKS_FOLDER / slot), f"{node.name}-{slot}")

    @property
    def image(self) -> str:
        """File name of its image."""
        return f"{self.slot}-{self.serial}.img"

    def successor(self, node: NodeLayout, *, own_volume: bool, serial: int | None = None) -> "Disk":
        """A new disk for the slot; with a mount point and volume of its own, or in place of the old one."""
        serial = serial or self.serial + 1
        if not own_volume:
            return Disk(self.slot, self.size, self.file_system, serial, self.mount, self.volume)
        name = f"{self.slot}-{serial}"
        mount = str(DISKS_FOLDER / name)
        return Disk(self.slot, self.size, self.file_system, serial, mount, f"{node.name}-{name}")

    def persistent_volume(self, node: NodeLayout) -> dict[str, Any]:
        """Its PersistentVolume."""
        storage_class = STANDARD_CLASS if self.slot == STANDARD_DISK else DISK_CLASS
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": self.volume,
                "labels": {"testbed/node": node.name, "testbed/slot": self.slot},
            },
            "spec": {
                "capacity": {"storage": format_size(self.size)},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": storage_class,
                "local": {"path": self.mount},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }


class Rack:
    """The slots of one node, stored in a file."""

    def __init__(self, node: NodeLayout) -> None:
        self._node = node
        self._file = node.folder / "disks.json"

    def all(self) -> list[Disk]:
        """The disks in the slots."""
        return [Disk(**each) for each in json.loads(self._file.read_text())]

    def get(self, slot: str) -> Disk:
        """The disk in a slot.

        Raises:
            KeyError: the node has no such slot.
        """
        disks = {disk.slot: disk for disk in self.all()}
        if slot not in disks:
            raise KeyError(f"{self._node.name} has no disk {slot}; it has {', '.join(sorted(disks))}")
        return disks[slot]

    def put(self, *disks: Disk, keep: bool = False) -> None:
        """Put new, blank disks into their slots; the old ones are deleted, or kept."""
        self._node.images.mkdir(parents=True, exist_ok=True)
        slots = {disk.slot: disk for disk in self.all()} if self._file.exists() else {}
        for disk in disks:
            make_image(self._node.images / disk.image, disk.size, disk.file_system)
            old = slots.get(disk.slot)
            slots[disk.slot] = disk
            self._write(list(slots.values()))
            if old and old.image != disk.image and not keep:
                (self._node.images / old.image).unlink(missing_ok=True)

    def kept(self, disk: Disk, serial: int) -> Disk:
        """A former disk of the slot.

        Raises:
            KeyError: the slot had none with that number, or it was deleted.
        """
        found = replace(disk, serial=serial)
        if not (self._node.images / found.image).exists():
            raise KeyError(f"{self._node.name} has no disk number {serial} of {disk.slot}")
        return found

    def next_serial(self, slot: str) -> int:
        """A number that no existing disk of the slot has."""
        taken = [int(image.stem.rpartition("-")[2]) for image in self._node.images.glob(f"{slot}-*.img")]
        return max([*taken, self.get(slot).serial]) + 1

    def place(self, disk: Disk) -> None:
        """Put a disk with an existing image into its slot; the current one is kept."""
        slots = {each.slot: each for each in self.all()} | {disk.slot: disk}
        self._write(list(slots.values()))

    def throw_away(self) -> None:
        """Delete all disks that are in no slot."""
        used = {disk.image for disk in self.all()}
        for image in self._node.images.glob("*.img"):
            if image.name not in used:
                image.unlink()

    def _write(self, disks: list[Disk]) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps([asdict(disk) for disk in disks], indent=1))
        part.rename(self._file)


def make_image(path: Path, size: int, file_system: str) -> None:
    """Create a sparse image with an empty file system; it uses hardly any space."""
    path.unlink(missing_ok=True)
    with path.open("wb") as image:
        image.truncate(size)
    if file_system == "xfs":
        run("mkfs.xfs", "-q", path)
    else:
        # Read-only on errors, as distributions mount theirs.
        features = ("-E", "lazy_itable_init=1,lazy_journal_init=1", "-e", "remount-ro", "-m", "0")
        run("mkfs.ext4", "-q", "-F", *features, path)


def storage_classes() -> list[dict[str, Any]]:
    """The two StorageClasses: Kafka's disks, and the default one for everything small."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Retain",
        }
        for name, annotations in ((DISK_CLASS, {}), (STANDARD_CLASS, default))
    ]


_UNITS: Final[dict[str, int]] = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}


def format_size(size: int) -> str:
    """A number of bytes as a quantity, in the largest unit that divides it."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def parse_size(text: str) -> int:
    """Parse a size such as 100Gi.

    Raises:
        ValueError: it is not a size.
    """
    digits = text.rstrip("kKMGTi")
    unit = text[len(digits) :]
    if not digits.isdigit() or unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size; write it like 100Gi")
    return int(digits) * _UNITS[unit]

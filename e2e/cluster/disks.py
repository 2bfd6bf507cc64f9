"""The disks of a node: sparse images, one per slot, that are swapped by putting another image into the slot."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from e2e.cluster.layout import DISK_CLASS, DISKS_FOLDER, STANDARD_CLASS, STANDARD_DISK, NodeLayout
from e2e.cluster.system import run


@dataclass(frozen=True)
class Disk:
    """What is in a slot now.

    Attributes:
        slot: the slot's name: disk0, disk1, …, or the one for small volumes.
        size: in bytes.
        file_system: xfs or ext4.
        serial: counts the disks that this slot has seen, from 1; the image's name ends with it.
        mount: where the node mounts it.
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
        """The disk that a new node has in a slot."""
        return cls(slot, size, file_system, 1, str(DISKS_FOLDER / slot), f"{node.name}-{slot}")

    @property
    def image(self) -> str:
        """File name of its image."""
        return f"{self.slot}-{self.serial}.img"

    def successor(self, node: NodeLayout, *, own_volume: bool) -> "Disk":
        """A new disk for the slot; with a mount and a volume of its own, or in the place of the old one."""
        serial = self.serial + 1
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
    """The slots of one node, remembered in a file."""

    def __init__(self, node: NodeLayout) -> None:
        self._node = node
        self._file = node.folder / "disks.json"

    def all(self) -> list[Disk]:
        """What is in the slots."""
        return [Disk(**each) for each in json.loads(self._file.read_text())]

    def get(self, slot: str) -> Disk:
        """What is in a slot.

        Raises:
            KeyError: the node has no such slot.
        """
        disks = {disk.slot: disk for disk in self.all()}
        if slot not in disks:
            raise KeyError(f"{self._node.name} has no disk {slot}; it has {', '.join(sorted(disks))}")
        return disks[slot]

    def put(self, *disks: Disk) -> None:
        """Put new, blank disks into their slots; what was there is thrown away."""
        self._node.images.mkdir(parents=True, exist_ok=True)
        slots = {disk.slot: disk for disk in self.all()} if self._file.exists() else {}
        for disk in disks:
            make_image(self._node.images / disk.image, disk.size, disk.file_system)
            old = slots.get(disk.slot)
            slots[disk.slot] = disk
            self._write(list(slots.values()))
            if old and old.image != disk.image:
                (self._node.images / old.image).unlink(missing_ok=True)

    def _write(self, disks: list[Disk]) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps([asdict(disk) for disk in disks], indent=1))
        part.rename(self._file)


def make_image(path: Path, size: int, file_system: str) -> None:
    """Make a sparse image with an empty file system; it takes hardly any room."""
    path.unlink(missing_ok=True)
    with path.open("wb") as image:
        image.truncate(size)
    if file_system == "xfs":
        run("mkfs.xfs", "-q", path)
    else:
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-m", "0", path)


def storage_classes() -> list[dict[str, Any]]:
    """The two classes: Kafka's disks, and the default one for everything small."""
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
    """A number of bytes as a quantity, in the largest unit that leaves it whole."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def parse_size(text: str) -> int:
    """Bytes of a size such as 100Gi.

    Raises:
        ValueError: it is none.
    """
    digits = text.rstrip("kKMGTi")
    unit = text[len(digits) :]
    if not digits.isdigit() or unit not in _UNITS:
        raise ValueError(f"{text!r} is no size; write it like 100Gi")
    return int(digits) * _UNITS[unit]

"""A CSI driver on a testbed: volumes that every node can mount, as the disks of a cloud, with Kubernetes' own provisioner and resizer.

The driver (``go-csi/driver``) keeps each volume as an image next to those of the nodes' disks, and mounts it through the enclosure, so that it fails
and hangs like them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster import cgroups
from e2e.cluster.build import ensure_csi_driver, ensure_csi_sidecars
from e2e.cluster.nodes import Node
from e2e.cluster.procs import Process, spawn
from e2e.cluster.testbed import Testbed
from e2e.cluster.waiting import wait_for

DRIVER: Final = "volumes.testbed"
CSI_CLASS: Final = "csi"
_FOLDER: Final = "csi"  # of the images, below those of all disks
_KUBELET: Final = Path("/var/lib/kubelet")


@dataclass(frozen=True)
class CsiDriver:
    """The driver of one testbed, running."""

    testbed: Testbed
    program: Path

    def start_on(self, node: Node) -> None:
        """Run it on a node until that loses power; the kubelet then knows it."""
        layout, testbed = node.layout, self.testbed.layout
        socket = _KUBELET / "plugins" / DRIVER / "csi.sock"
        node.run("mkdir", "-p", socket.parent, _KUBELET / "plugins_registry")
        command = node.command(
            self.program,
            f"--socket={socket}",
            f"--node={layout.name}",
            f"--zone={node.zone}",
            f"--images={testbed.images / _FOLDER}",
            f"--served={testbed.enclosure / _FOLDER}",
            f"--registration={_KUBELET / 'plugins_registry'}",
        )
        spawn([*cgroups.join_command(f"{layout.cgroup}/system"), *command], layout.log / "csi.log")

        def known() -> bool:
            return DRIVER in self.testbed.kubectl("get", "csinode", layout.name, "-o", "yaml", check=False)

        wait_for(f"the CSI driver on {layout.name}", known, seconds=60, every=0.5)

    def order(self, handle: str, mode: str) -> None:
        """Set a volume's behaviour from now on: well, hang or error. The handle is that of its PersistentVolume."""
        self.testbed.enclosure.order(f"{_FOLDER}/{handle}.img", mode)


@contextmanager
def csi_driver(testbed: Testbed, logs: Path) -> Iterator[CsiDriver]:
    """Run the driver on all nodes, and its StorageClass's provisioner and resizer."""
    program, sidecars, images = ensure_csi_driver(), ensure_csi_sidecars(), testbed.layout.images / _FOLDER
    images.mkdir(exist_ok=True)
    socket = testbed.layout.state / "csi.sock"
    driver = CsiDriver(testbed, program)
    controller = spawn(
        [program, f"--socket={socket}", f"--images={images}"],
        logs / "csi-controller.log",
        dies_with_us=True,
    )
    wait_for("the CSI controller", socket.exists, seconds=20, every=0.1)
    processes: list[Process] = [controller]
    try:
        testbed.apply(*_objects())
        for sidecar in ("csi-provisioner", "csi-resizer"):
            command: list[str | Path] = [
                sidecars / sidecar,
                f"--kubeconfig={testbed.kubeconfig}",
                f"--csi-address={socket}",
            ]
            processes.append(spawn(command, logs / f"{sidecar}.log", dies_with_us=True))
        for node in testbed.nodes():
            driver.start_on(node)
        yield driver
    finally:
        for image in images.glob("*.img"):
            driver.order(image.stem, "well")
        for process in processes:
            process.stop(grace=5)


def _objects() -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "podInfoOnMount": False, "fsGroupPolicy": "File"},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CSI_CLASS},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
            "reclaimPolicy": "Delete",
        },
    ]

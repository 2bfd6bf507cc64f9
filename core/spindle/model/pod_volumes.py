"""Where the kubelet of a node mounts volumes that are not local, below its folder of pods.

The operator records the type of each volume, and the agent builds the path. Names become parts of that path, so each is checked first: whoever
wrote the record must not be able to lead the agent elsewhere.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

CSI: Final = "csi"
# By type of volume: the folder of the kubelet's plugin, and the part of the path below the volume's own folder.
_PLUGINS: Final[Mapping[str, tuple[str, str]]] = {
    CSI: ("kubernetes.io~csi", "mount"),
    "fc": ("kubernetes.io~fc", ""),
    "iscsi": ("kubernetes.io~iscsi", ""),
    "nfs": ("kubernetes.io~nfs", ""),
}
# Types that Kubernetes replaced by CSI drivers: the kubelet mounts such volumes as those of the driver.
_NOW_CSI: Final = frozenset(
    {
        "awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "portworxVolume", "vsphereVolume",
    }
)  # fmt: skip
_OTHERS: Final = frozenset({"cephfs", "flexVolume", "glusterfs", "hostPath", "local", "rbd"})
_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,62}")
_VOLUME: Final = re.compile(
    r"[0-9a-z]([-.0-9a-z]{0,251}[0-9a-z])?"
)  # a DNS subdomain, as Kubernetes requires


def volume_type(spec: Mapping[str, Any]) -> str:
    """Type of a PersistentVolume from its spec: ``local``, ``hostPath``, ``csi``, …; empty if it is not known."""
    for key in spec:
        if key in _NOW_CSI:
            return CSI
        if key in _PLUGINS or key in _OTHERS:
            return key
    return ""


def mounted_in_pods(kind: str) -> bool:
    """Whether the kubelet mounts volumes of this type below its folder of pods, at a path that is known."""
    return kind in _PLUGINS


def path_in_pods(kind: str, pod_uid: str, volume: str) -> str | None:
    """Path of a pod's volume below the kubelet's folder of pods.

    Args:
        kind: type of the volume.
        pod_uid: UID of the pod.
        volume: name of the PersistentVolume.

    Returns:
        None if the type is another one, or if a name is none that Kubernetes allows.
    """
    if kind not in _PLUGINS or not _UID.fullmatch(pod_uid) or not _VOLUME.fullmatch(volume):
        return None
    plugin, below = _PLUGINS[kind]
    return "/".join(part for part in (pod_uid, "volumes", plugin, volume, below) if part)

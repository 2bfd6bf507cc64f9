"""Where the disks of a KafkaBroker are on this node, or why the agent cannot look at them.

A local volume is at the path that is on record, if that is below one of the folders that the agent may see. Any other volume is where the kubelet mounts it
for the broker's pod: the agent builds that path itself, from the UID of the pod and the name of the volume.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.api import names
from spindle.model.pod_volumes import mounted_in_pods
from spindle_agent.disk import WatchedDisk, first_of, pace_of
from spindle_agent.options import Options


@dataclass(frozen=True)
class _Place:
    """Path of a volume and of the folder above, as this process sees them, and whether that folder is the kubelet's folder of pods."""

    path: str
    root: str
    in_pod: bool = False


def slots_of(obj: Mapping[str, Any], options: Options) -> list[WatchedDisk]:
    """The disks of a KafkaBroker that can be inspected from here."""
    spec, places = obj["spec"], {}
    for name, about in _recorded(obj).items():
        place = _place(obj, about, options)
        if isinstance(place, _Place):
            places[name] = about, place
    return [
        WatchedDisk(
            broker_id=int(spec["id"]),
            name=disk["name"],
            directory_id=disk["directoryId"],
            path=place.path,
            root=place.root,
            in_pod=place.in_pod,
            log_dir=about.get("logDir") or names.log_dir(disk["name"]),
            fs_uuid=disk.get("fsUuid"),
            mode=disk.get("mode", "Active"),
            ballast=int(spec.get("ballastBytes") or 0) if disk.get("mode", "Active") == "Active" else 0,
            # A segment that is read for long would keep the kubelet from unmounting the volume, and so the pod from ending.
            scrub=None if place.in_pod else pace_of(spec),
            scrub_first=first_of(spec),
        )
        for disk in spec.get("disks") or ()
        if disk["name"] in places
        for about, place in [places[disk["name"]]]
    ]


def unwatched_of(obj: Mapping[str, Any], options: Options) -> dict[str, str]:
    """The disks of a KafkaBroker that cannot be inspected from here, with the reason as a sentence."""
    reasons = {name: _place(obj, about, options) for name, about in _recorded(obj).items()}
    return {name: reason for name, reason in reasons.items() if isinstance(reason, str) and reason}


def _recorded(obj: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The recorded disks of a KafkaBroker by name, with their entries in its status."""
    told = {disk["name"]: disk for disk in (obj.get("status") or {}).get("disks") or ()}
    return {disk["name"]: told.get(disk["name"]) or {} for disk in obj["spec"].get("disks") or ()}


def _place(obj: Mapping[str, Any], about: Mapping[str, Any], options: Options) -> _Place | str:
    """Where a disk is, or why that cannot be seen from here; empty without a volume."""
    if path := about.get("path"):
        found = options.local_path(str(path))
        if found is None:
            return f"Its path, {path}, is in none of the folders that the agent may see (agent.diskRoots: {', '.join(options.roots) or 'none'})."
        return _Place(*found)
    kind, volume = str(about.get("volumeType") or ""), str(about.get("pv") or "")
    if not volume:
        return ""
    if not mounted_in_pods(kind):
        return f"The agent does not look at volumes of this type ({kind or 'unknown'})."
    if not options.kubelet_pods:
        return f"The volume is not local ({kind}): the agent looks at such volumes only with agent.kubeletPods=true."
    pod = str((obj.get("status") or {}).get("podUid") or "")
    if not pod:
        return "Its broker has no pod, so the volume is not mounted."
    inside = options.path_in_pods(kind, pod, volume)
    if inside is None:
        return "The name of its volume or of its pod is none that Kubernetes gives."
    return _Place(*inside, in_pod=True)

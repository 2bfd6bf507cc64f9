"""How long Kafka is down during a take-over: estimated before it, from what may take how long."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.model import objects
from spindle.model.waiting import counted
from spindle.takeover.plan import TakeoverPlan

_GRACE: Final = 30  # seconds; Kubernetes' default of terminationGracePeriodSeconds
_DELETION: Final = 5  # seconds from the end of a pod's processes until it is deleted
_CLAIMS: Final = 10  # seconds for any number of claims, and for each further one:
_CLAIM: Final = 0.2
_INSPECTION: Final = 30  # seconds; the pods of all nodes run at once
_START: Final = 90  # seconds; controllers and brokers, each after its preflight
# Seconds in which storage should detach and attach the volumes of a pod that may have moved. It is an assumption: Kubernetes sets no limit to it.
_ATTACHMENT: Final = 120
_MOVES: Final = 2  # to the pod that inspects them, and to that of the broker or controller
_MINUTE: Final = 60


@dataclass(frozen=True)
class Downtime:
    """The longest that each part of the outage should take, in seconds.

    Attributes:
        stop: brokers stop, then controllers.
        grace: of the brokers' pods: what they may take to close their logs.
        claims: the volumes get claims with other names.
        disks: how many volumes there are.
        remote: how many volumes are not local, so that they may have to be detached from one node and attached to another.
        attachment: the storage does that for the pods that inspect them, and for those of Spindle.
        inspection: pods inspect the volumes and rename folders.
        start: Spindle starts controllers and brokers.
    """

    stop: int
    grace: int
    claims: int
    disks: int
    remote: int = 0
    attachment: int = 0
    inspection: int = _INSPECTION
    start: int = _START

    @property
    def minutes(self) -> int:
        """The whole outage, rounded up to minutes."""
        return math.ceil((self.stop + self.claims + self.attachment + self.inspection + self.start) / _MINUTE)

    @property
    def bound(self) -> str:
        """The whole outage as the end of a sentence: for at most …, and what that depends on."""
        if not self.remote:
            return f"for at most {counted(self.minutes, 'minute')}"
        return f"for about {counted(self.minutes, 'minute')}, if the storage detaches and attaches volumes within {_ATTACHMENT} s"

    def text(self) -> str:
        """What the plan says, as sentences."""
        attachment = (
            f"{self.attachment} s to detach and attach {counted(self.remote, 'volume')} that {'is' if self.remote == 1 else 'are'} not local, {_MOVES} times, "
            if self.remote
            else ""
        )
        longer = (
            f"if the storage takes longer than {_ATTACHMENT} s to detach the volumes of a pod from one node and attach them to another, which Kubernetes does not "
            "limit (try it: delete the pod of one broker, and see when its volumes are attached again); "
            if self.remote
            else ""
        )
        return (
            f"Kafka is down {self.bound}: {self.stop} s to stop it (grace periods of the pods), "
            f"{self.claims} s for the claims of {counted(self.disks, 'volume')}, {attachment}{self.inspection} s to inspect and rename, {self.start} s to start it. "
            f"It takes longer {longer}if a broker does not close its logs within {self.grace} s, because Kafka then recovers them when it starts; if a volume "
            "has millions of files, because the kubelet changes the group of each; or if nodes have to pull images first."
        )


def downtime(plan: TakeoverPlan, pods: Mapping[str, Any], volumes: Mapping[str, Any]) -> Downtime:
    """Estimate the outage.

    Args:
        plan: of the take-over.
        pods: by name; one that is not there has stopped already.
        volumes: PersistentVolumes by name; one that is not there counts as not local.
    """
    graces = [
        max((_grace(pods[node.pod]) for node in nodes if node.pod in pods), default=0)
        for nodes in (plan.brokers, plan.controllers)
    ]
    disks = [disk for node in plan.nodes for disk in node.disks]
    remote = sum(not _is_local(volumes.get(disk.volume, {})) for disk in disks)
    return Downtime(
        stop=sum(grace + _DELETION for grace in graces),
        grace=graces[0],
        claims=_CLAIMS + math.ceil(_CLAIM * len(disks)),
        disks=len(disks),
        remote=remote,
        attachment=_MOVES * _ATTACHMENT if remote else 0,
    )


def _is_local(volume: Mapping[str, Any]) -> bool:
    """Whether a volume is on the node that uses it: no pod can take it to another one."""
    spec = volume.get("spec") or {}
    return "local" in spec or "hostPath" in spec or objects.pinned_to(volume) is not None


def _grace(pod: Mapping[str, Any]) -> int:
    found = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return _GRACE if found is None else int(found)

"""How long Kafka is down during a take-over: estimated before it, from what may take how long."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.model.waiting import counted
from spindle.takeover.plan import TakeoverPlan

_GRACE: Final = 30  # seconds; Kubernetes' default of terminationGracePeriodSeconds
_DELETION: Final = 5  # seconds from the end of a pod's processes until it is deleted
_CLAIMS: Final = 10  # seconds for any number of claims, and for each further one:
_CLAIM: Final = 0.2
_INSPECTION: Final = 30  # seconds; the pods of all nodes run at once
_START: Final = 90  # seconds; controllers and brokers, each after its preflight
_MINUTE: Final = 60


@dataclass(frozen=True)
class Downtime:
    """The longest that each part of the outage should take, in seconds.

    Attributes:
        stop: brokers stop, then controllers.
        grace: of the brokers' pods: what they may take to close their logs.
        claims: the volumes get claims with other names.
        disks: how many volumes there are.
        inspection: pods inspect the volumes and rename folders.
        start: Spindle starts controllers and brokers.
    """

    stop: int
    grace: int
    claims: int
    disks: int
    inspection: int = _INSPECTION
    start: int = _START

    @property
    def minutes(self) -> int:
        """The whole outage, rounded up to minutes."""
        return math.ceil((self.stop + self.claims + self.inspection + self.start) / _MINUTE)

    def text(self) -> str:
        """What the plan says, as sentences."""
        return (
            f"Kafka is down for at most {counted(self.minutes, 'minute')}: {self.stop} s to stop it (grace periods of the pods), "
            f"{self.claims} s for the claims of {counted(self.disks, 'volume')}, {self.inspection} s to inspect and rename, {self.start} s to start it. "
            f"It takes longer if a broker does not close its logs within {self.grace} s, because Kafka then recovers them when it starts; if a volume "
            "has millions of files, because the kubelet changes the group of each; or if nodes have to pull images first."
        )


def downtime(plan: TakeoverPlan, pods: Mapping[str, Any]) -> Downtime:
    """Estimate the outage.

    Args:
        plan: of the take-over.
        pods: by name; one that is not there has stopped already.
    """
    graces = [
        max((_grace(pods[node.pod]) for node in nodes if node.pod in pods), default=0)
        for nodes in (plan.brokers, plan.controllers)
    ]
    disks = sum(len(node.disks) for node in plan.nodes)
    return Downtime(
        stop=sum(grace + _DELETION for grace in graces),
        grace=graces[0],
        claims=_CLAIMS + math.ceil(_CLAIM * disks),
        disks=disks,
    )


def _grace(pod: Mapping[str, Any]) -> int:
    found = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return _GRACE if found is None else int(found)

"""A KafkaCluster that scenarios share: one at a time, recreated when another kind is requested or the last scenario did not leave it healthy."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.cluster.disks import parse_size
from e2e.scenarios.lab import CLUSTER, Lab, light, sample

Opener = Callable[[str, str, int | None], Lab]
Closer = Callable[[Lab], None]


@dataclass(frozen=True)
class Kind:
    """Kind of cluster.

    Attributes:
        brokers: number of brokers.
        file_system: of all disks.
        disks: of each broker.
        grace: seconds until a broker with a hung disk counts as lost.
        size: of each disk, a quantity; empty for that of the testbed, which is too large to fill.
        policy: additional fields of ``spec.disks``.
        config: of all brokers.
        rebalance: ``spec.rebalance``.
    """

    brokers: int = 3
    file_system: str = "xfs"
    disks: int = 2
    grace: int = 600
    size: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    rebalance: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """The cluster of the quickstart, except for these fields.

        Scenarios follow each other faster than the ten minutes of "no automatic action on many disks at once" (docs/safety.md, rule 9).
        """
        pool = light(self.brokers)
        pool["disks"] = pool["disks"] | {"count": self.disks} | ({"size": self.size} if self.size else {})
        policy = {"automaticShare": 100, "graceSeconds": self.grace, **self.policy}
        return sample(
            brokerPools=[pool], disks=policy, config=dict(self.config), rebalance=dict(self.rebalance)
        )


@dataclass(frozen=True)
class Shown(Kind):
    """The twelve-line sample of the README, with its default heap."""

    def manifest(self) -> dict[str, Any]:
        """The sample itself, except for the time after which a disk counts as hung.

        All disks of a testbed are files on one real disk: other writes there may delay them for seconds.
        """
        return sample(disks={"hungAfterSeconds": 30})


SHOWN: Final = Shown()
THREE: Final = Kind(3)
# The grace time only concerns hung disks; a short one avoids another cluster for those scenarios.
SIX: Final = Kind(6, grace=30)


class Stand:
    """The current cluster, if any.

    Args:
        opener: creates its namespace, from a title, a file system and a size of disks.
        closer: deletes a namespace and the cluster in it.
    """

    def __init__(self, opener: Opener, closer: Closer) -> None:
        self._opener = opener
        self._closer = closer
        self._open: Lab | None = None  # also if its cluster did not become ready
        self._kind: Kind | None = None
        self._lab: Lab | None = None
        self._spec: dict[str, Any] = {}

    def get(self, kind: Kind) -> Lab:
        """A cluster of that kind, with its original spec and all its disks healthy."""
        if self._lab is not None and self._kind == kind and self._is_as_made(self._lab):
            return self._lab
        self.close()
        title = f"disks-{kind.brokers}-{kind.file_system}-{int(time.time()) % 100000}"
        size = parse_size(kind.size) if kind.size else None
        lab = self._open = self._opener(title, kind.file_system, size)
        lab.apply(kind.manifest())
        took = lab.until_ready(600)
        print(f"{kind.brokers} brokers on {kind.file_system} were ready after {took:.0f} s")
        self._lab, self._kind, self._spec = lab, kind, lab.cluster()["spec"]
        return lab

    def _is_as_made(self, lab: Lab) -> bool:
        found = lab.get("kafkacluster", CLUSTER)
        return found is not None and found["spec"] == self._spec and is_well(lab)

    def close(self) -> None:
        """Remove it; another one may be requested afterwards."""
        lab, self._open = self._open, None
        self._lab = self._kind = None
        if lab is not None:
            self._closer(lab)


def is_well(lab: Lab) -> bool:
    """Whether nothing is left to do, every disk is in use, and nothing is requested."""
    conditions = {c["type"]: c["status"] for c in lab.status().get("conditions", ())}
    wanted = {
        "Available": "True",
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "DisksHealthy": "True",
        "DataAtRisk": "False",
    }
    brokers = lab.list("kafkabrokers")
    return (
        all(conditions.get(name) == value for name, value in wanted.items())
        and all(
            disk["mode"] == "Active"
            and not any(
                (broker["spec"].get(field) or {}).get("disks") for field in ("maintenance", "acceptDataLoss")
            )
            for broker in brokers
            for disk in broker["spec"]["disks"]
        )
        and all(
            disk.get("state") == "Active" for broker in brokers for disk in broker["status"].get("disks", ())
        )
    )


def until_well(lab: Lab, seconds: float = 400) -> float:
    """Wait until it is settled; returns how long that took."""
    return lab.until(f"{CLUSTER} is well and balanced", lambda: is_well(lab), seconds)

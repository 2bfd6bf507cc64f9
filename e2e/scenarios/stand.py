"""A KafkaCluster that scenarios share: one at a time, made anew when another one is asked for or the last was not left well."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.cluster.disks import parse_size
from e2e.scenarios.lab import CLUSTER, Lab, light, sample

Opener = Callable[[str, str, int | None], AbstractContextManager[Lab]]


@dataclass(frozen=True)
class Kind:
    """What sort of cluster.

    Attributes:
        brokers: how many.
        file_system: of all disks.
        disks: of each broker.
        grace: seconds until a broker with a hung disk is given up.
        size: of each disk, a quantity; empty for that of the testbed, which is more than can be filled.
        policy: more of ``spec.disks``.
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
        """The quickstart's cluster but for that; one scenario follows the other too fast for rule 9's ten minutes."""
        pool = light(self.brokers)
        pool["disks"] = pool["disks"] | {"count": self.disks} | ({"size": self.size} if self.size else {})
        policy = {"automaticShare": 100, "graceSeconds": self.grace, **self.policy}
        return sample(
            brokerPools=[pool], disks=policy, config=dict(self.config), rebalance=dict(self.rebalance)
        )


@dataclass(frozen=True)
class Shown(Kind):
    """The twelve-line sample as it stands in the README, with the heap that it has by default."""

    def manifest(self) -> dict[str, Any]:
        """The sample itself, but for the time after which a disk hangs.

        All disks of a testbed are files of one real disk: what else is written there may keep them waiting for seconds.
        """
        return sample(disks={"hungAfterSeconds": 30})


SHOWN: Final = Shown()
THREE: Final = Kind(3)
# Nothing but a hung disk knows a grace time; a short one saves a cluster of its own for those scenarios.
SIX: Final = Kind(6, grace=30)


class Stand:
    """The cluster that stands now, if any."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._stack = ExitStack()
        self._kind: Kind | None = None
        self._lab: Lab | None = None
        self._spec: dict[str, Any] = {}

    def get(self, kind: Kind) -> Lab:
        """A cluster of that kind, as it was asked for, with all its disks well."""
        if self._lab is not None and self._kind == kind and self._is_as_made(self._lab):
            return self._lab
        self.close()
        title = f"disks-{kind.brokers}-{kind.file_system}-{int(time.time()) % 100000}"
        size = parse_size(kind.size) if kind.size else None
        lab = self._stack.enter_context(self._opener(title, kind.file_system, size))
        lab.apply(kind.manifest())
        took = lab.until_ready(600)
        print(f"{kind.brokers} brokers on {kind.file_system} were ready after {took:.0f} s")
        self._lab, self._kind, self._spec = lab, kind, lab.cluster()["spec"]
        return lab

    def _is_as_made(self, lab: Lab) -> bool:
        found = lab.get("kafkacluster", CLUSTER)
        return found is not None and found["spec"] == self._spec and is_well(lab)

    def close(self) -> None:
        """Take it away; another one may be asked for afterwards."""
        self._lab = self._kind = None
        self._stack.close()


def is_well(lab: Lab) -> bool:
    """Whether nothing is left to do, every disk is in use, and nothing is asked for."""
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
    """Wait until it is; returns how long that took."""
    return lab.until(f"{CLUSTER} is well and balanced", lambda: is_well(lab), seconds)

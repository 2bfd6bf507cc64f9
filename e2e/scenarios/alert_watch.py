"""Alerts of one cluster as a Prometheus sees them, and a fault that causes one."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.scenarios.disk_slot import Slot, slots
from e2e.scenarios.lab import Lab
from e2e.scenarios.machine import Machine
from e2e.scenarios.prometheus import Prometheus
from e2e.scenarios.stand import until_well


@dataclass
class Watch:
    """Alerts of one cluster, with the times at which they fire and resolve."""

    lab: Lab
    prometheus: Prometheus

    def fires(self, alert: str, since: float, *, everywhere: bool = False) -> list[dict[str, str]]:
        """Wait until an alert fires; returns the labels of its instances."""
        namespace = "" if everywhere else self.lab.namespace
        found: list[dict[str, str]] = []

        def firing() -> bool:
            found[:] = self.prometheus.firing(alert, namespace)
            return bool(found)

        self.lab.until(f"{alert} fires", firing, 240)
        print(f"{alert} fired {time.monotonic() - since:.0f} s after the fault")
        return found

    def resolves(self, alert: str, since: float, *, everywhere: bool = False) -> None:
        """Wait until an alert does not fire any more."""
        namespace = "" if everywhere else self.lab.namespace
        self.lab.until(f"{alert} is resolved", lambda: not self.prometheus.firing(alert, namespace), 300)
        print(f"{alert} resolved {time.monotonic() - since:.0f} s after the repair")


def a_disk_waits_for_its_replacement(
    watch: Watch, machine: Machine, meanwhile: Callable[[Slot], None] = lambda _: None
) -> None:
    """A disk fails: an alert names it, and resolves after the disk was replaced.

    The topics of the cluster must be able to spare the replicas of the disk: else it is not ready to be replaced.

    Args:
        meanwhile: called with the disk while the alert fires.
    """
    slot = slots(watch.lab)[2, "disk0"]
    observed = watch.lab.the("kafkabroker", slot.owner)["status"]["observed"]["disks"]
    device = next(each["device"] for each in observed if each["name"] == slot.disk)
    began = time.monotonic()
    machine.disk("fail", slot.volume)

    def named() -> bool:
        found = watch.prometheus.firing("SpindleWaitingTooLong", watch.lab.namespace)
        return any(
            (each.get("disk"), each["reason"]) == (slot.disk, "ReplacementNeeded")
            and each["broker"] == slot.owner
            and each["node"] == slot.node()
            and each["rack"]
            # The device of a dead disk may not be reported any more; Prometheus leaves empty labels out.
            and each.get("device", device) == device
            for each in found
        )

    watch.lab.until("the alert names the disk", named, 400)
    print(f"SpindleWaitingTooLong fired {time.monotonic() - began:.0f} s after the fault")
    meanwhile(slot)
    repaired = time.monotonic()
    machine.new_disk(slot.volume, keep=True)
    until_well(watch.lab)
    watch.resolves("SpindleWaitingTooLong", repaired)

"""The demo's chapter on a disk that dies while Kafka writes, and is replaced by a blank one.

A run that was interrupted continues: the chapter goes on from the state of the disk that is not in use.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from e2e.cluster.waiting import pause
from e2e.demo.show import DemoError, Show

_BROKER: Final = 0  # its rack has a second broker, which takes its replicas
_DISK: Final = "disk1"
_HEALED_S: Final = 300
_EVERY_S: Final = 1.0
_NOT_REPLACED: Final = ("Active", "Failed", "Evacuating", "Evacuated")

Json = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What the demo shows of the disk and the cluster.

    Attributes:
        state: of the disk, as in the status.
        line: state and message of the disk, in one line.
        waits: messages of ``status.waiting``.
        settled: whether the cluster is ready, and waits for nothing.
        retired: whether the broker once had a disk that it gave up.
    """

    state: str
    line: str
    waits: tuple[str, ...]
    settled: bool
    retired: bool


def seen(broker: Mapping[str, Any], cluster: Mapping[str, Any]) -> Seen:
    """Read it from a KafkaBroker and its KafkaCluster, as the API server sends them."""
    status = cluster.get("status") or {}
    disks = (broker.get("status") or {}).get("disks") or ()
    disk: Mapping[str, Any] = next((each for each in disks if each["name"] == _DISK), {})
    state = str(disk.get("state") or "unknown")
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    waits = tuple(str(each["message"]) for each in status.get("waiting") or ())
    return Seen(
        state=state,
        line=f"{state}: {disk.get('message') or ''}".rstrip(": "),
        waits=waits,
        settled=conditions.get("Ready") == "True" and conditions.get("Reconciling") != "True" and not waits,
        retired=bool(broker["spec"].get("retired")),
    )


class DyingDisk:
    """The chapter.

    Args:
        show: prints it.
        cluster: name of the KafkaCluster.
    """

    def __init__(self, show: Show, cluster: str) -> None:
        self._show = show
        self._cluster = cluster
        self._broker = f"{cluster}-broker-{_BROKER}"

    def play(self) -> None:
        """Let the disk die and heal, unless an earlier run did."""
        show, now = self._show, self._look()
        if now.retired and now.state == "Active":
            show.step(f"A disk dies: {_DISK} of broker {_BROKER} died and was replaced in an earlier run")
            return
        show.step("A disk dies while Kafka writes, and is replaced by a blank one")
        with show.beside("spindle", "ui", self._cluster, until="http://") as url:
            show.say(
                f"\nTo watch it on the map of all disks, open this in a browser on this machine:\n\n    {url}"
            )
            node, slot = self._place()
            if now.state == "Active":
                show.run("python", "-m", "e2e.cluster", "disk", "fail", node, slot)
            if now.state in _NOT_REPLACED:
                self._follow("Evacuated")
                show.say(
                    "\nNo replica is on it any more. It can be pulled; a blank one comes into its place."
                )
                show.run("python", "-m", "e2e.cluster", "disk", "swap", node, slot)
            self._follow("Active")

    def _follow(self, state: str) -> None:
        """Print what changes until the disk is in a state, and, if it is in use again, nothing is left to do."""
        show, told = self._show, set[str]()
        show.say(f"\n{_DISK} of broker {_BROKER}, and what the cluster waits for:\n")
        began = said = time.monotonic()
        while True:
            now, seconds = self._look(), time.monotonic() - began
            news = [
                line for line in (now.line, *(f"  waits: {each}" for each in now.waits)) if line not in told
            ]
            for line in news or ([f"  … still {now.state}"] if time.monotonic() - said > 10 else []):
                said = time.monotonic()
                show.say(f"{seconds:5.0f} s  {line}")
            told.update(news)
            if now.state == state and (now.settled or state != "Active"):
                return
            if seconds > _HEALED_S:
                raise DemoError(
                    f"{_DISK} of {self._broker} was not {state} within {_HEALED_S} s; the reason is above, and in: spindle status {self._cluster}"
                )
            pause(_EVERY_S)

    def _place(self) -> tuple[str, str]:
        """Node and slot of the disk's volume, as the testbed numbers and names them."""
        broker = self._get("kafkabroker", self._broker)
        volume = next(str(each["pv"]) for each in broker["spec"]["disks"] if each["name"] == _DISK)
        node, _, slot = volume.removeprefix("node").partition("-")
        return node, slot

    def _look(self) -> Seen:
        return seen(self._get("kafkabroker", self._broker), self._get("kafkacluster", self._cluster))

    def _get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(self._show.ask("kubectl", "get", kind, name, "-o", "json"))
        return found

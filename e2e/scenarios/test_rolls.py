"""Every broker and controller is restarted under load, for a configuration, a certificate, a release; also with a fault during the rolling restart."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise

import pytest

from e2e.cluster import versions
from e2e.cluster.images import ensure_kafka_image
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.disk_slot import choose, conclude, dies, replace
from e2e.scenarios.lab import CLUSTER, Lab, light, pause, sample
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Killer, Machine
from e2e.scenarios.stand import THREE, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_ROLL = 900  # seconds for a rolling restart of six nodes on a small machine


@dataclass
class Roll:
    """An observed rolling restart.

    Attributes:
        began: its start, in seconds since the epoch.
        before: pod → UID.
        short: partitions that were seen below min.insync.replicas.
    """

    lab: Lab
    load: Load
    began: float
    before: dict[str, str]
    short: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Record partitions with fewer in-sync replicas than min.insync.replicas."""
        least = {topic.name: topic.min_isr for topic in self.load.topics}
        for name, (_, isr, _) in self.load.partitions().items():
            if len(isr) < least.get(name.rpartition("-")[0], 0):
                self.short[name] = len(isr)

    def done(self) -> bool:
        """Whether every node has been recreated and all is in sync."""
        self.look()
        status = self.lab.status()
        now = pods(self.lab)
        renewed = now.keys() == self.before.keys() and not set(now.values()) & set(self.before.values())
        counts = [status[kind]["ready"] == status[kind]["total"] for kind in ("brokers", "controllers")]
        return renewed and all(counts) and not status.get("takingDown")

    def reasons(self) -> set[str]:
        """Reasons for evicted pods, from the events."""
        return {
            event["reason"]
            for event in self.lab.list("events")
            if event.get("message", "").startswith("Evicting ")
            and datetime.fromisoformat(event["lastTimestamp"]).timestamp() >= self.began - 1
        }


def pods(lab: Lab) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role")}


@contextmanager
def rolling(lab: Lab, image: str, topic: str, *, alone: bool = True) -> Iterator[Roll]:
    """A load on a cluster during a rolling restart; at the end nothing may be lost, nor have been below min.insync.replicas.

    ``alone``: there is no other fault. With three replicas, a restarting broker and a failed disk leave one.
    """
    with Timeline(lab) as timeline, load(lab, image, Topic(topic, partitions=12), rate=20) as running:
        roll = Roll(lab, running, timeline.mark("the rolling restart"), pods(lab))
        yield roll
        print(f"restarted {len(roll.before)} nodes in {time.time() - roll.began:.0f} s, for {roll.reasons()}")
        report = conclude(running, timeline, roll.began)
        print(f"longest time that a producer waited, by partition: {report.gaps(roll.began)}")
    assert not alone or not roll.short, f"below min.insync.replicas: {roll.short}"


def configure(lab: Lab) -> None:
    """A setting that no running broker accepts, a different value each time."""
    lab.patch(
        "kafkacluster",
        CLUSTER,
        {"spec": {"config": {"queued.max.requests": str(400 + int(time.time()) % 300)}}},
    )


def until_taken_down(lab: Lab, seconds: float = 120) -> None:
    """Wait until Spindle takes a broker down."""
    lab.until(
        "a broker is taken down",
        lambda: any("-broker-" in mark["pod"] for mark in lab.status().get("takingDown", ())),
        seconds,
    )


def test_a_changed_configuration(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with rolling(lab, spindle_image, "configured") as roll:
        configure(lab)
        lab.until("every node is recreated", roll.done, _ROLL)
        assert roll.reasons() == {"SpecChanged"}


def test_what_kafka_takes_while_it_runs_restarts_nothing(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with load(lab, spindle_image, Topic("tuned")) as running:
        before = pods(lab)
        lab.patch("kafkacluster", CLUSTER, {"spec": {"config": {"log.retention.ms": "86400000"}}})
        lab.until("all brokers have the setting", lambda: told(lab) == 3, 120)
        lab.until_ready()
        assert pods(lab) == before
        assert not running.finish().lost


def told(lab: Lab) -> int:
    """Number of brokers with a recorded dynamic setting of Spindle's."""
    brokers = lab.list("kafkabrokers")
    return sum("spindle.dev/tuned" in (b["metadata"].get("annotations") or {}) for b in brokers)


def test_reissued_certificates(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    with rolling(lab, spindle_image, "certified") as roll:
        for pod in roll.before:
            lab.kubectl("delete", "secret", f"{pod}-tls")
        lab.until("every node runs with its new certificate", roll.done, _ROLL)
        assert roll.reasons() == {"CertificateRenewed"}


def _with(
    stand: Stand,
    image: str,
    topic: str,
    disturb: Callable[[Lab, Load, Timeline], None],
    *,
    alone: bool = True,
) -> None:
    """A rolling restart with a fault in between."""
    lab = stand.get(THREE)
    with rolling(lab, image, topic, alone=alone) as roll, Timeline(lab) as timeline:
        configure(lab)
        until_taken_down(lab)
        disturb(lab, roll.load, timeline)
        lab.until("every node is recreated", roll.done, 2 * _ROLL)


def test_the_operator_is_killed_in_the_middle(stand: Stand, spindle_image: str, killer: Killer) -> None:
    def kill(*_unused: object) -> None:
        for _ in range(5):
            killer.kill()
            pause(7.0)

    _with(stand, spindle_image, "orphaned", kill)


def test_a_disk_dies_in_the_middle(stand: Stand, spindle_image: str, machine: Machine) -> None:
    def fail(lab: Lab, running: Load, timeline: Timeline) -> None:
        away = {mark["nodeId"] for mark in lab.status().get("takingDown", ())}
        slot = choose(lab, running, lambda replicas: replicas[0].broker not in away)
        dies(timeline, machine, slot)
        replace(timeline, machine, slot)

    _with(stand, spindle_image, "diskless", fail, alone=False)


def _runs(lab: Lab, version: str) -> bool:
    return bool(lab.status()["version"] == version)


@pytest.mark.parametrize(
    ("former", "latest"), list(pairwise(versions.KAFKA_RELEASES)), ids=["4.2-to-4.3", "4.3-to-4.4"]
)
def test_an_upgrade_of_kafka(
    lab: Lab, installed: Target, spindle_image: str, former: str, latest: str
) -> None:
    """There, back again before metadata.version is raised, and there for good."""
    if isinstance(installed, Testbed):  # other partitions fetch from it
        for version in (former, latest):
            installed.give(ensure_kafka_image(version))
    lab.apply(sample(version=former, brokerPools=[light(3)], rolling={"soakHours": 1}))
    lab.until_ready(600)
    minor_before, minor = (version.rpartition(".")[0] for version in (former, latest))
    assert lab.status()["metadataVersion"] == minor_before
    for topic, version in (("there", latest), ("back", former)):
        with rolling(lab, spindle_image, topic) as roll:
            lab.patch("kafkacluster", CLUSTER, {"spec": {"version": version}})
            lab.until("every node is recreated", roll.done, _ROLL)
            lab.until("it is reported", partial(_runs, lab, version), 120)
        assert lab.status()["metadataVersion"] == minor_before
    with rolling(lab, spindle_image, "upgraded") as roll:
        lab.patch("kafkacluster", CLUSTER, {"spec": {"version": latest, "rolling": {"soakHours": 0}}})
        lab.until("every node is recreated", roll.done, _ROLL)
        lab.until("metadata.version is raised", lambda: lab.status()["metadataVersion"] == minor, 120)
    assert lab.status()["version"] == latest
    lab.patch("kafkacluster", CLUSTER, {"spec": {"version": former}})
    lab.until_waiting("DowngradeNotSupported")
    before = pods(lab)
    pause(20)
    assert pods(lab) == before

"""From one release of Kafka to another, and back as long as that is possible."""

from dataclasses import replace

import pytest

from spindle.model.actions import Evict, RaiseFeatures
from spindle.model.versions import may_change
from spindle.model.view import KafkaView
from tests.model.world import World


@pytest.mark.parametrize(
    ("running", "wanted", "level", "refused"),
    [
        ("4.2.0", "4.3.1", 29, False),
        ("4.2.0", "4.3.1", None, False),
        ("4.3.1", "4.3.0", 30, False),
        ("4.3.1", "4.2.1", 29, False),
        ("4.3.1", "4.2.1", 30, True),
        ("4.3.1", "4.2.1", None, True),
        ("4.10.0", "4.3.1", 30, True),
    ],
)
def test_the_way_back_is_open_until_metadata_version_was_raised(
    running: str, wanted: str, level: int | None, refused: bool
) -> None:
    if (running, wanted) == ("4.10.0", "4.3.1"):
        level = 37
    refusal = may_change(running, wanted, level)
    assert (refusal is not None) is refused
    if refusal is not None:
        assert running in refusal.unblocked_by


class Releases:
    """A world whose Kafka has a metadata.version."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str, level: int, **rolling: int) -> None:
        self.level: int | None = level
        seen = World.kafka

        def kafka(world: World) -> KafkaView:
            view = seen(world)
            return view if view.error else replace(view, metadata_version=self.level)

        monkeypatch.setattr(World, "kafka", kafka)
        self.world = World.of(version=version, rolling=rolling)
        self.world.settle()
        self.raised: list[int] = []

    def go_on(self, passes: int = 90) -> None:
        for _ in range(passes):
            made = self.world.reconcile()
            if "versionSince" not in made.status:  # server-side apply takes away what is left out
                self.world.cluster["status"].pop("versionSince", None)
            for action in made.actions:
                if isinstance(action, RaiseFeatures):
                    self.level = action.levels["metadata.version"]
                    self.raised.append(self.level)
            self.world.breathe()

    @property
    def images(self) -> set[str]:
        return {c["image"] for pod in self.world.all("Pod") for c in pod["spec"]["containers"]}

    @property
    def reasons(self) -> set[str]:
        return {wait["reason"] for wait in self.world.cluster["status"]["waiting"]}


def test_nodes_first_then_a_soak_then_the_metadata_version(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.2.0", 29, soakHours=2)
    assert it.world.cluster["status"]["version"] == "4.2.0"
    it.world.cluster["spec"]["version"] = "4.3.1"
    it.go_on()
    assert it.images == {"apache/kafka:4.3.1"}
    status = it.world.cluster["status"]
    assert (status["version"], status["metadataVersion"]) == ("4.3.1", "4.2")
    assert "Soaking" in it.reasons
    assert it.raised == []
    it.world.now += 2 * 3600
    it.go_on(3)
    assert it.raised == [30]
    it.go_on(3)
    assert it.raised == [30]
    assert it.world.cluster["status"]["metadataVersion"] == "4.3"


def test_the_status_has_no_version_that_not_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.2.0", 29)
    it.world.cluster["spec"]["version"] = "4.3.1"
    while not [a for a in it.world.reconcile().actions if isinstance(a, Evict)]:
        it.world.breathe()
    it.go_on(1)
    assert it.world.cluster["status"]["version"] == "4.2.0"


def test_a_node_that_is_away_for_a_moment_does_not_begin_the_time_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Releases(monkeypatch, "4.3.1", 29, soakHours=2)
    since = it.world.cluster["status"]["versionSince"]
    it.world.now += 3600
    del it.world.objects["Pod", "demo-broker-0"]
    it.world.reconcile()
    it.go_on(10)
    assert it.world.cluster["status"]["versionSince"] == since


def test_while_kafka_does_not_tell_what_it_told_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.3.1", 29)
    it.level = None
    it.world.cluster["spec"]["version"] = "4.2.0"
    it.go_on(3)
    assert "DowngradeNotSupported" not in it.reasons
    assert it.world.cluster["status"]["metadataVersion"] == "4.2"


def test_going_back_is_possible_before_and_refused_after(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.2.0", 29)
    it.world.cluster["spec"]["version"] = "4.3.1"
    it.go_on()
    it.world.cluster["spec"]["version"] = "4.2.0"
    it.go_on()
    assert it.images == {"apache/kafka:4.2.0"}
    it.world.cluster["spec"]["version"] = "4.3.1"
    it.go_on()
    it.level = 30
    it.world.cluster["spec"]["version"] = "4.2.0"
    it.go_on(20)
    assert it.images == {"apache/kafka:4.3.1"}
    assert "DowngradeNotSupported" in it.reasons


def test_a_downgrade_that_is_refused_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.3.1", 30)
    it.world.cluster["spec"]["version"] = "4.2.0"
    it.world.cluster["spec"]["config"] = {"num.partitions": "3"}
    evicted = [a.pod for _ in range(60) for a in _step(it.world)]
    assert len(evicted) == len(it.world.all("Pod"))
    assert it.images == {"apache/kafka:4.3.1"}


def _step(world: World) -> list[Evict]:
    made = [a for a in world.reconcile().actions if isinstance(a, Evict)]
    world.breathe()
    return made


def test_the_time_begins_anew_after_a_downgrade_that_was_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.3.1", 29, soakHours=2)
    it.world.now += 7000
    it.world.cluster["spec"]["version"] = "4.2.0"
    while len(it.images) == 1:
        it.go_on(1)
    it.go_on(2)
    assert "versionSince" not in it.world.cluster["status"]
    it.world.cluster["spec"]["version"] = "4.3.1"
    it.go_on(60)
    assert it.images == {"apache/kafka:4.3.1"}
    it.world.now += 3600
    it.go_on(3)
    assert it.raised == []
    assert "Soaking" in it.reasons
    it.world.now += 3600
    it.go_on(3)
    assert it.raised == [30]


def test_an_image_that_was_changed_before_the_version_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Releases(monkeypatch, "4.2.0", 29, soakHours=2)
    it.world.cluster["spec"]["image"] = "mine/kafka:4.3.1"
    it.go_on()
    it.world.cluster["spec"]["version"] = "4.3.1"
    before = {pod["metadata"]["uid"] for pod in it.world.all("Pod")}
    it.go_on(4)
    assert it.world.cluster["status"]["version"] == "4.3.1"
    assert "Soaking" in it.reasons
    it.world.now += 2 * 3600
    it.go_on(3)
    assert it.raised == [30]
    assert {pod["metadata"]["uid"] for pod in it.world.all("Pod")} == before

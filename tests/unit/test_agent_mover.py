"""The mover against a broker that is made up, and an operator that sets the throttle that it wants."""

from dataclasses import replace
from typing import Any, cast

import pytest

from spindle.api.enums import Pressure
from spindle.moves import between_dirs
from spindle_agent.broker.client import Copy, LogDir, Replica
from spindle_agent.moves import mover as module
from spindle_agent.moves.mover import Mover, read_orders
from spindle_agent.moves.progress import GIVE_UP

A, B = "/d/a/log", "/d/b/log"
FIRST: Replica = ("t", 0)
SPEC = {
    "moves": [{"topic": "t", "partition": 0, "fromDir": A, "toDir": B}],
    "throttleBytesPerSecond": 1000,
    "throttleBytesPerSecondMin": 100,
}


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class Broker:
    """Stands in for a link."""

    def __init__(self) -> None:
        self.home = {FIRST: (A, 100_000)}
        self.copies: dict[Replica, tuple[str, int]] = {}
        self.value: str | None = None
        self.values: list[str | None] = []
        self.refuses: dict[Replica, str] = {}

    def dirs(self) -> list[LogDir]:
        return [
            LogDir(
                path,
                0,
                {key: size for key, (home, size) in self.home.items() if home == path},
                {key: Copy(size, 9) for key, (to, size) in self.copies.items() if to == path},
                10**9,
                9 * 10**8,
            )
            for path in (A, B)
        ]

    async def throttle(self, dirs: list[LogDir]) -> str | None:
        return self.value

    def set_throttle(self, value: str | None) -> None:
        if value != self.value:
            self.value = value
            self.values.append(value)

    async def move(self, moves: dict[Replica, str]) -> dict[Replica, str]:
        for replica, path in moves.items():
            if replica in self.refuses:
                continue
            if self.home[replica][0] == path:
                self.copies.pop(replica, None)
            else:
                self.copies[replica] = path, 0
        return {key: why for key, why in self.refuses.items() if key in moves}

    def grow(self, size: int) -> None:
        for key, (path, there) in list(self.copies.items()):
            if there + size >= self.home[key][1]:
                self.home[key] = path, self.home[key][1]
                del self.copies[key]
            else:
                self.copies[key] = path, there + size


class Desk:
    """A mover, its broker and its status, and an operator that is there or not."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.broker = clock, Broker()
        self.status: dict[str, Any] = {}
        self.online = self.operator = True
        self.felt: dict[str, Pressure] = {}
        self.mover = self.start()

    def start(self) -> Mover:
        self.mover = Mover("demo", self.status)
        self.mover.wants(read_orders(SPEC))
        return self.mover

    def tell(self) -> None:
        if self.online:
            self.status = self.mover.fields()

    async def steps(self, seconds: int, grow: int = 0) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.broker.grow(grow)
            copies = set(self.broker.copies)
            unthrottled = self.broker.value is None
            await self.mover.step(cast("Any", self.broker), self.broker.dirs(), self.felt, self.tell)
            assert not (unthrottled and set(self.broker.copies) - copies), "a copy begins without a throttle"
            if self.operator:
                rate = between_dirs.wanted(self.status)
                self.broker.set_throttle(None if rate is None else str(rate))


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return Desk(clock)


async def test_the_throttle_stands_before_the_first_copy_follows_the_disks_and_goes_with_the_last(
    desk: Desk,
) -> None:
    await desk.steps(2)
    assert (desk.broker.value, list(desk.broker.copies)) == ("1000", [FIRST])
    desk.felt = {B: Pressure.STRAINED}
    await desk.steps(25, grow=100)
    assert desk.broker.values == ["1000", "500", "250"]
    assert desk.status["throttle"]["pressure"] == "Strained"
    assert desk.mover.throttle == 250
    desk.felt = {}
    await desk.steps(20, grow=100)
    assert desk.broker.values[3:] == ["340", "430"]
    (move,) = desk.status["moves"]
    assert move["bytesPerSecond"] == 100
    assert move["eta"].startswith("1970-01-01T00:1")
    await desk.steps(3, grow=100_000)
    assert desk.broker.value is None
    assert "throttle" not in desk.status
    assert [each["state"] for each in desk.status["moves"]] == ["Done"]


async def test_another_agent_goes_on_from_the_rate_on_record(desk: Desk) -> None:
    await desk.steps(2)
    desk.felt = {B: Pressure.STRAINED}
    await desk.steps(15, grow=10)
    assert desk.broker.value == "500"
    desk.start()
    desk.felt = {B: Pressure.BUSY}
    await desk.steps(30, grow=10)
    assert desk.broker.value == "500"
    assert desk.status["moves"][0]["state"] == "Copying"


async def test_while_the_status_cannot_be_written_the_throttle_stays(desk: Desk) -> None:
    await desk.steps(2)
    desk.online = False
    desk.felt = {B: Pressure.STRAINED}
    await desk.steps(30, grow=10)
    assert desk.broker.values == ["1000"]
    assert desk.mover.ready
    desk.online = True
    await desk.steps(2, grow=10)
    assert desk.broker.value == "500"


async def test_a_broker_that_is_silent_for_long_costs_no_move_its_time(desk: Desk) -> None:
    await desk.steps(3)
    desk.clock.now += GIVE_UP + 100
    await desk.steps(2)
    assert desk.status["moves"][0]["state"] == "Copying"
    await desk.steps(int(GIVE_UP))
    assert desk.status["moves"][0]["state"] == "Failed"
    assert desk.broker.copies == {}
    await desk.steps(2)
    assert desk.broker.value is None


async def test_a_refused_cancellation_is_asked_for_again_and_complained_of_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.steps(3)
    desk.broker.refuses = {FIRST: "KafkaStorage"}
    desk.mover.wants(replace(read_orders(SPEC), moves=()))
    await desk.steps(5)
    assert [r.getMessage() for r in caplog.records if "cannot be cancelled" in r.getMessage()] == [
        "demo: the copy of t-0 cannot be cancelled: KafkaStorage"
    ]
    desk.broker.refuses = {}
    await desk.steps(3)
    assert desk.broker.copies == {}
    assert desk.broker.value is None
    assert desk.status["moves"] == []


async def test_without_an_operator_no_copy_begins_and_the_move_says_what_it_waits_for(desk: Desk) -> None:
    desk.operator = False
    await desk.steps(5)
    assert desk.broker.copies == {}
    (move,) = desk.status["moves"]
    assert (move["state"], "operator" in move["message"]) == ("Queued", True)
    assert desk.status["throttle"] == {"wantedBytesPerSecond": 1000, "pressure": "Calm"}
    desk.operator = True
    await desk.steps(2)
    (move,) = desk.status["moves"]
    assert (move["state"], move.get("message")) == ("Copying", None)


async def test_while_the_operator_is_away_the_rate_stays_as_it_is(desk: Desk) -> None:
    await desk.steps(2)
    desk.operator = False
    desk.felt = {B: Pressure.STRAINED}
    await desk.steps(60, grow=10)
    assert desk.broker.values == ["1000"]
    assert desk.mover.throttle == 500, "one step down, and no further before it is in force"


async def test_a_throttle_that_somebody_else_has_set_counts(desk: Desk) -> None:
    desk.operator = False
    desk.broker.value = "7"
    await desk.steps(2)
    assert list(desk.broker.copies) == [FIRST]


async def test_what_an_earlier_agent_has_set_stays_on_record_until_it_is_put_back(desk: Desk) -> None:
    desk.operator = False
    desk.broker.value = "500"
    desk.status = {"moves": [], "throttle": {"before": "7", "ours": ["1000", "500"]}}
    desk.start()
    desk.mover.wants(replace(read_orders(SPEC), moves=()))
    await desk.steps(5)
    assert desk.status["throttle"] == {"before": "7", "ours": ["1000", "500"]}
    assert desk.mover.busy
    desk.broker.value = "7"
    await desk.steps(2)
    assert "throttle" not in desk.status
    assert not desk.mover.busy


async def test_moves_of_an_earlier_agent_go_on_at_its_rate(desk: Desk) -> None:
    desk.broker.value = "500"
    desk.broker.copies[FIRST] = B, 10
    copying = SPEC["moves"][0] | {"state": "Copying", "copied": 10}  # type: ignore[index]
    desk.status = {"moves": [copying], "throttle": {"ours": ["1000", "500"]}}
    desk.start()
    await desk.steps(2)
    assert desk.broker.value == "500"
    assert desk.status["throttle"]["wantedBytesPerSecond"] == 500


async def test_moves_outlive_the_time_in_which_a_new_agent_has_no_certificate(desk: Desk) -> None:
    await desk.steps(3, grow=10)
    desk.start()
    desk.clock.now += 3 * GIVE_UP  # nobody could ask the broker, which copied on
    desk.broker.grow(500)
    await desk.steps(2, grow=10)
    (entry,) = desk.status["moves"]
    assert (entry["state"], entry["copied"] > 500) == ("Copying", True)
    assert desk.broker.values == ["1000"], "its throttle stood all the time"
    await desk.steps(2, grow=100_000)
    assert [each["state"] for each in desk.status["moves"]] == ["Done"]
    assert desk.broker.value is None

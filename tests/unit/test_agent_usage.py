"""How full a disk was: counted, kept on the disk, remembered; and what the status says of its future."""

import base64
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from spindle.api.broker import DiskForecast
from spindle.api.enums import DirMoveState
from spindle.api.thresholds import Thresholds
from spindle.forecast.history import HOUR, History
from spindle.model.disk_identity import Identity, render_identity
from spindle_agent.broker.client import Copy, LogDir
from spindle_agent.moves.progress import Move, Progress
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import (
    LARGEST,
    QuickChecked,
    Recalled,
    Remember,
    Report,
    Watch,
    decode,
    encode,
)
from spindle_agent.probing.pool import Key, Pool
from spindle_agent.probing.usage_record import UsageRecord
from spindle_agent.usage import store, tracker
from spindle_agent.usage.counting import AppendCounter
from spindle_agent.usage.forecast import Task, ThresholdEta, UsageForecast, as_status, make_forecast
from spindle_agent.usage.records import FILE_SIZE, PLACES, SIZE, STEP, UNKNOWN, Sample, offset, pack, unpack
from spindle_agent.usage.tracker import UsageTracker, in_flight, thresholds_of
from spindle_agent.usage.usage_history import Minute, UsageHistory
from tests.unit.agent_fakes import until

ID, OTHER = "A" * 22, "B" * 22
KEY = ("ns", "demo-broker-0", "disk0")
NOW = 1_790_000_100.0
GB = 10**9


def sample(number: int, used: int = GB, **more: int) -> Sample:
    return Sample(number, used, 100 * GB, **more)


# --- kept on the disk


def test_a_record_is_read_as_it_was_written_and_a_torn_one_is_none() -> None:
    one, other = sample(5_966_667, append=7, moved=-3), sample(5_966_668, append=UNKNOWN)
    assert list(unpack(pack(one) + pack(other))) == [one, other]
    torn = pack(one)[:20] + bytes(20)
    assert list(unpack(torn + pack(other) + bytes(SIZE) + pack(one)[:30])) == [other]


@pytest.fixture
def root(tmp_path: Path) -> Any:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def kept(root: int, directory_id: str = ID) -> list[Sample]:
    return [each for piece in store.read(root, directory_id) for each in unpack(piece)]


def test_the_file_has_its_full_size_at_once_and_keeps_it(root: int, tmp_path: Path) -> None:
    assert kept(root) == []
    for number in range(1, PLACES + 30):
        if number % 997 == 0 or number > PLACES:
            store.write(root, ID, [sample(number)])
            assert (tmp_path / ".spindle-history").stat().st_size == FILE_SIZE
    found = {each.number for each in kept(root)}
    assert found == {n for n in range(1, PLACES + 30) if n % 997 == 0 or n > PLACES}
    assert offset(sample(1)) == offset(sample(PLACES + 1))


def test_a_piece_fits_into_a_message(root: int) -> None:
    store.write(root, ID, [sample(1)])
    for piece in store.read(root, ID):
        message = Recalled(directory_id=ID, records=base64.b64encode(piece).decode())
        assert len(encode(message)) < LARGEST
        assert decode(encode(message)) == message


def test_another_log_dirs_past_is_not_ours(root: int) -> None:
    store.write(root, ID, [sample(1)])
    assert kept(root, OTHER) == []
    store.write(root, OTHER, [sample(2)])
    assert kept(root, OTHER) == [sample(2)]
    assert kept(root, ID) == []


def volume(folder: Path, directory_id: str = ID) -> Watch:
    (folder / "spindle.json").write_text(render_identity(Identity("cluster", 0, "disk0", directory_id), None))
    return Watch(path=str(folder), cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID)


def remember(number: int) -> Remember:
    return Remember(directory_id=ID, **asdict(sample(number)))


def test_a_disks_process_reads_once_and_writes_what_waits(tmp_path: Path) -> None:
    watch = volume(tmp_path)
    sent: list[Recalled] = []
    past = UsageRecord()
    past.see_to(watch, sent.append)
    assert sent == []
    past.remember(remember(5))
    past.remember(replace(remember(6), directory_id=OTHER))  # of a disk that was here before
    past.see_to(watch, sent.append)
    UsageRecord().see_to(watch, sent.append)
    samples = [each for piece in sent for each in unpack(base64.b64decode(piece.records))]
    assert samples == [sample(5)]


def test_nothing_is_written_to_a_disk_that_is_not_ours(tmp_path: Path) -> None:
    volume(tmp_path, OTHER)
    for path in (str(tmp_path), "/nowhere"):
        past = UsageRecord()
        past.remember(remember(5))
        past.see_to(
            Watch(path=path, cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID), lambda _: None
        )
        assert not (tmp_path / ".spindle-history").exists()


# --- counted


def log_dir(copies: dict[str, int] | None = None, **replicas: int) -> LogDir:
    futures = {(topic, 0): Copy(size, 0) for topic, size in (copies or {}).items()}
    return LogDir("/d", replicas={(topic, 0): size for topic, size in replicas.items()}, copies=futures)


def test_what_grows_was_appended_and_what_shrinks_was_taken() -> None:
    count = AppendCounter()
    assert count.take(0) == (None, 0)
    count.look(log_dir(a=100, b=50), 0)
    assert count.take(0) == (None, 0)
    count.look(log_dir(a=130, b=10), 10)
    count.look(log_dir(a=140, b=15), 20)
    assert count.take(20) == (45, 0)
    count.look(log_dir(a=140, b=15), 30)
    assert count.take(30) == (0, 0)


def test_a_replica_that_moves_in_counts_as_moved_while_it_is_copied() -> None:
    count = AppendCounter()
    count.look(log_dir(a=100), 0)
    count.look(log_dir(a=100, copies={"m": 30}), 10)
    assert count.take(10) == (0, 30)
    count.look(log_dir(a=101, copies={"m": 80}), 20)
    count.look(log_dir(a=101, m=90), 30)
    assert count.take(30) == (1, 60)
    count.look(log_dir(a=101, m=95), 40)
    assert count.take(40) == (5, 0)


def test_a_replica_that_goes_frees_its_space_when_kafka_deletes_it() -> None:
    count = AppendCounter()
    count.look(log_dir(a=100, b=40, copies={"c": 7}), 0)
    count.look(log_dir(a=100), 10)
    assert count.take(60) == (0, 0)
    assert count.take(70) == (None, -47)


# --- remembered


def fill(ledger: UsageHistory, minutes: int, start: float = NOW, append: int | None = 60) -> list[Sample]:
    done = (ledger.add(Minute(start + 60 * k, 10 * GB + 60 * k, append, 0), 100 * GB) for k in range(minutes))
    return [each for each in done if each is not None]


def test_minutes_become_five_minutes() -> None:
    ledger = UsageHistory()
    assert ledger.history() is None
    done = fill(ledger, 12)
    assert [each.number for each in done] == [NOW // STEP, NOW // STEP + 1]
    assert [each.append for each in done] == [300, 300]
    assert done[0].used == 10 * GB + 240
    found = ledger.history()
    assert found is not None
    until, history = found
    assert until == NOW + 660
    assert history.step == 60
    assert history.used[0, -1] == 10 * GB + 660
    assert history.append is not None
    assert history.append[0, -5:] == pytest.approx([60] * 5)


def test_an_hour_of_five_minutes_counts_before_minutes() -> None:
    ledger = UsageHistory()
    fill(ledger, 90)
    found = ledger.history()
    assert found is not None
    assert found[1].step == STEP
    assert found[1].used.shape == (1, 17)
    assert found[0] == (NOW // STEP + 17) * STEP


def test_what_was_kept_comes_before_what_is_seen() -> None:
    ledger, latest = UsageHistory(), int(NOW // STEP)
    old = [sample(latest - k, used=10 * GB - k) for k in range(1, 3000)]
    ledger.recall([*old, sample(latest - PLACES), sample(latest + 5)], NOW)
    fill(ledger, 7)
    ledger.recall([sample(latest, used=1)], NOW + 420)
    found = ledger.history()
    assert found is not None
    assert found[1].used.shape == (1, 3000)
    assert found[1].used[0, -1] == 10 * GB + 240
    assert found[1].append is None


def test_moves_and_silence_of_the_broker_are_no_growth() -> None:
    ledger = UsageHistory()
    for k in range(200):
        came = 5 * GB if k == 150 else 0
        used = 10 * GB + 1000 * k + (5 * GB if k >= 150 else 0)
        ledger.add(Minute(NOW + 60 * k, used, None if k % 50 < 10 else 1000, came), 100 * GB)
    found = ledger.history()
    assert found is not None
    assert np.diff(found[1].used[0]) == pytest.approx(5000)
    assert found[1].append is not None
    assert found[1].append[0, 1:] == pytest.approx(5000)


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    ledger = UsageHistory()
    fill(ledger, 20)
    fill(ledger, 15, start=NOW - 4000)
    found = ledger.history()
    assert found is not None
    assert found[0] == NOW - 4000 + 840


def test_what_is_older_than_four_weeks_is_forgotten() -> None:
    ledger = UsageHistory()
    fill(ledger, 90, start=86_400.0)  # a clock that had not been set yet
    fill(ledger, 90)
    found = ledger.history()
    assert found is not None
    assert found[1].used.shape == (1, 17)


# --- told


def crossing(hours: float, spread: float = 0.1) -> ThresholdEta:
    return ThresholdEta(*(NOW + hours * HOUR * x for x in (1, 1 - spread, 1 + spread)))


def outlook(rate: float = 123_456.0, **hours: float) -> UsageForecast:
    return UsageForecast(NOW, rate, 100.0 * GB, {name: crossing(value) for name, value in hours.items()})


def test_what_is_told_is_coarse_and_leaves_out_what_is_far() -> None:
    entry = as_status(outlook(cordonAt=10, blockProducersAt=5000, warnAt=float("inf")), None)
    assert set(entry) == {"bytesPerSecond", "cordonAt"}
    assert entry["bytesPerSecond"] == 120_000
    assert entry["cordonAt"]["at"].endswith("00Z")
    never = outlook(cordonAt=10)
    never = replace(never, etas={"cordonAt": replace(crossing(10), high=float("inf"))})
    assert set(as_status(never, None)["cordonAt"]) == {"at", "low"}


def test_news_that_do_not_matter_are_not_told() -> None:
    before = as_status(outlook(cordonAt=100), None)
    assert as_status(outlook(124_000.0, cordonAt=103), before) is before
    assert as_status(outlook(cordonAt=80), before) != before
    assert as_status(outlook(300_000.0, cordonAt=100), before)["bytesPerSecond"] == 300_000
    assert "cordonAt" not in as_status(outlook(cordonAt=2000), before)


def test_what_was_told_near_the_horizon_does_not_come_and_go() -> None:
    before = as_status(outlook(cordonAt=27 * 24), None)
    assert "cordonAt" in before
    assert "cordonAt" in as_status(outlook(cordonAt=30 * 24), before)
    assert "cordonAt" not in as_status(outlook(cordonAt=30 * 24), None)


def test_thresholds_of_the_spec_count() -> None:
    used = 0.5 * 100 * GB + 1e5 * 300 * np.arange(-300, 1)
    task = Task(NOW, History(300.0, used[None, :], np.array([100 * GB])), Thresholds())
    plain = make_forecast(task)
    assert plain.rate == pytest.approx(1e5, rel=1e-3)
    assert plain.etas["warnAt"].at == pytest.approx(NOW + 20 * GB / 1e5, rel=1e-6)
    assert plain.etas["blockProducersAt"].at == pytest.approx(NOW + 45 * GB / 1e5, rel=1e-6)
    own = make_forecast(
        replace(task, thresholds=thresholds_of({"thresholds": {"warn": 60}}), arriving=5 * GB)
    )
    assert own.etas["warnAt"].at == pytest.approx(NOW + 5 * GB / 1e5, rel=1e-6)
    assert thresholds_of({"thresholds": {"warn": "much"}}) == Thresholds()


def test_moves_that_have_begun_are_in_flight() -> None:
    def copying(**more: Any) -> Progress:
        return Progress(state=DirMoveState.COPYING, size=100, **more)

    moves = {
        Move("a", 0, "/one", "/two"): copying(copied=30),
        Move("b", 0, "/two", "/one"): copying(),
        Move("c", 0, "/one", "/two"): Progress(size=1000),
    }
    assert in_flight(moves, "/two") == (70, 100)
    assert in_flight(moves, "/one") == (100, 100)


class FakeDisk:
    ours = True
    glanced = QuickChecked(at=0, mounted=True, total_bytes=100 * GB, used_bytes=10 * GB)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return NOW + self.now


async def test_from_samples_to_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, disk = Clock(), FakeDisk()
    written: list[Sample] = []
    changed: list[Any] = []
    monkeypatch.setattr(tracker, "time", clock)
    made = UsageTracker(lambda _, record: written.append(record))
    made.sees(KEY, ID, {"forecast": {"bytesPerSecond": 7}})
    assert made.told(KEY) == {"forecast": {"bytesPerSecond": 7}}
    for k in range(3 * 3600 // 10):
        disk.glanced = replace(disk.glanced, used_bytes=10 * GB + int(1e6 * 10 * k))
        made.look(KEY, log_dir(a=int(1e6 * 10 * k)))
        made.sample(KEY, cast("Any", disk))
        if k % 30 == 0:
            await made._round(lambda _: Thresholds(), lambda _: (0, 0), changed.append)
        clock.now += 10
    assert len(written) == 36
    assert written[5].append == pytest.approx(3e8)
    entry = made.told(KEY)["forecast"]
    assert entry["bytesPerSecond"] == pytest.approx(1e6, rel=0.02)
    assert DiskForecast.parse(entry).to_dict() == entry
    assert len(changed) < 10  # while so little is known; later the same stands for hours
    ((_, found),) = made.forecasts()
    assert found.etas["warnAt"].at == pytest.approx(NOW + 1000 + 60e9 / 1e6, abs=600)
    clock.now += 3600
    assert made.told(KEY) == {}  # nobody has seen the disk for an hour
    made.sees(KEY, OTHER, None)  # another disk in the slot begins with nothing
    assert made.told(KEY) == {}
    made.keep([])
    assert made.told(KEY) == {}


async def test_a_disk_that_is_not_ours_or_not_well_has_no_samples() -> None:
    written: list[Sample] = []
    made = UsageTracker(lambda _, record: written.append(record))
    made.sees(KEY, ID, None)
    for disk in (FakeDisk(), FakeDisk()):
        disk.ours = False
        made.sample(KEY, cast("Any", disk))
        disk.ours, disk.glanced = True, replace(FakeDisk.glanced, errno=5)
        made.sample(KEY, cast("Any", disk))
    assert made._fills[KEY].usage_history._minutes.maxlen
    assert not made._fills[KEY].usage_history._minutes


async def test_what_a_disk_recalls_is_forecast_at_once() -> None:
    made = UsageTracker(lambda *_: None)
    changed: list[Any] = []
    made.sees(KEY, ID, None)
    latest = int(time.time() // STEP)
    data = b"".join(pack(sample(latest - k, used=50 * GB - k * 10**7)) for k in range(1, 1000))
    made.recalled(KEY, Recalled(directory_id=OTHER, records=base64.b64encode(data).decode()))
    await made._round(lambda _: Thresholds(), lambda _: (0, 0), changed.append)
    assert changed == []
    made.recalled(KEY, Recalled(directory_id=ID, records=base64.b64encode(data).decode()))
    await made._round(lambda _: Thresholds(), lambda _: (0, 0), changed.append)
    assert changed == [KEY]
    assert made.told(KEY)["forecast"]["bytesPerSecond"] == pytest.approx(10**7 / STEP, rel=0.05)


async def test_a_worker_keeps_what_the_next_one_recalls(tmp_path: Path) -> None:
    heard: list[Recalled] = []

    def hear(_: Key, report: Report) -> None:
        if isinstance(report, Recalled):
            heard.append(report)

    watch, file = replace(volume(tmp_path), interval=0.05), tmp_path / ".spindle-history"
    fork_server = ForkServer.start()
    pool = Pool(fork_server, hear, lambda _: None)
    try:
        pool.set({KEY: watch})
        pool.remember(KEY, remember(77))
        await until(lambda: file.exists() and any(unpack(file.read_bytes()[SIZE:])))
        pool.set({})
        pool.set({KEY: watch})
        await until(lambda: bool(heard))
    finally:
        pool.close()
        fork_server.channel.close()
    samples = [each for piece in heard for each in unpack(base64.b64decode(piece.records))]
    assert samples == [sample(77)]

"""Workers and where they come from, on plain folders: what is written where, and what happens when one dies."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from spindle.model.disk_identity import Identity, render_identity, render_meta_properties
from spindle_agent.probing import pool as pools
from spindle_agent.probing import rehearsal
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import (
    LARGEST,
    Began,
    Inspected,
    Probed,
    QuickChecked,
    Report,
    Watch,
    decode,
    encode,
    well,
)
from spindle_agent.probing.pool import Key, Pool
from spindle_agent.probing.probe import memory, probe
from spindle_agent.probing.quick_check import full_check, quick_check
from spindle_agent.probing.worker import until_next
from tests.unit.agent_fakes import until

ID = "A" * 22
KEY = ("ns", "demo-broker-0", "disk0")


def volume(folder: Path, directory_id: str = ID) -> Watch:
    """A folder of this file system that carries a disk's identity, as several disks on one file system do."""
    identity = Identity("cluster", 0, "disk0", directory_id)
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "meta.properties").write_text(render_meta_properties(identity))
    (folder / "spindle.json").write_text(render_identity(identity, None))
    return Watch(
        path=str(folder), cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID, interval=0.05
    )


def probed(watch: Watch) -> Probed:
    return probe(watch, memory(), memory())


# --- one probe


def test_it_writes_and_reads_one_block_again_and_again(tmp_path: Path) -> None:
    watch = volume(tmp_path / "v")
    file = tmp_path / "v" / ".spindle-probe"

    made = probed(watch)
    first = file.read_bytes()
    probed(watch)

    assert (made.errno, made.wrong, made.skipped) == (0, False, False)
    assert len(first) == 4096
    assert file.read_bytes() != first
    assert len(file.read_bytes()) == 4096


@pytest.mark.parametrize("damage", ["another", "none", "garbled", "gone"])
def test_nothing_is_written_where_the_identity_is_not_ours(tmp_path: Path, damage: str) -> None:
    watch = volume(tmp_path / "v", "B" * 22 if damage == "another" else ID)
    identity = tmp_path / "v" / "spindle.json"
    if damage in {"none", "gone"}:
        identity.unlink()
    if damage == "garbled":
        identity.write_text("{")
    if damage == "gone":
        watch = Watch(
            path=str(tmp_path / "nowhere"), cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID
        )

    assert probed(watch).skipped
    assert not (tmp_path / "v" / ".spindle-probe").exists()


def test_without_direct_io_it_goes_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = volume(tmp_path / "v")
    real = os.open

    def refuse(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    made = probed(watch)
    assert (made.errno, made.wrong, made.skipped) == (0, False, False)


@pytest.mark.parametrize("call", ["pwritev", "fsync", "preadv"])
def test_an_error_is_told_with_what_was_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "broken")

    watch = volume(tmp_path / "v")
    monkeypatch.setattr(os, call, fail)
    made = probed(watch)
    assert (made.errno, made.doing) == (errno.EIO, {"pwritev": "write", "preadv": "read"}.get(call, call))


def test_other_bytes_than_were_written_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = volume(tmp_path / "v")
    monkeypatch.setattr(os, "preadv", lambda *_: 4096)
    assert probed(watch).wrong


# --- one glance


def test_a_folder_with_the_identity_counts_as_mounted_and_an_empty_one_does_not(tmp_path: Path) -> None:
    watch = volume(tmp_path / "v")
    seen = quick_check(watch, 1.0)
    assert well(seen.glanced)
    assert seen.glanced.total_bytes > seen.glanced.used_bytes > 0
    found = full_check(watch, 1.0).found
    assert found.identity is not None
    assert found.meta is not None

    (tmp_path / "v" / "spindle.json").unlink()
    assert not quick_check(watch, 2.0).glanced.mounted
    for path in (tmp_path / "nowhere", tmp_path / "v" / "log" / "meta.properties"):
        gone = Watch(path=str(path), cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID)
        assert not quick_check(gone, 3.0).glanced.mounted
        assert not full_check(gone, 3.0).found.mounted


def test_a_look_fits_into_a_message_whatever_is_on_the_disk(tmp_path: Path) -> None:
    watch = volume(tmp_path / "v")
    for number in range(2000):
        (tmp_path / "v" / f"{number:0100}").touch()
    replica_index = full_check(watch, 1.0)
    assert replica_index.found.identity is not None
    assert replica_index.found.strangers
    identity = Identity("c" * 50_000, 0, "d" * 10_000, ID)
    (tmp_path / "v" / "spindle.json").write_text(render_identity(identity, None))
    (tmp_path / "v" / "spindle.json.pending").write_text(render_identity(identity, None))
    replica_index = full_check(watch, 1.0)
    assert replica_index.found.garbled
    assert len(encode(replica_index)) < LARGEST


def test_what_has_changed_can_be_told_from_the_fingerprint(tmp_path: Path) -> None:
    watch = volume(tmp_path / "v")
    first = quick_check(watch, 1.0).fingerprint
    assert quick_check(watch, 2.0).fingerprint == first
    (tmp_path / "v" / "log" / "topic-0").mkdir()
    assert quick_check(watch, 3.0).fingerprint == first, "partitions come and go"
    (tmp_path / "v" / "log" / "meta.properties").write_text("other")
    assert quick_check(watch, 4.0).fingerprint != first


def test_a_check_reads_files_again_only_if_they_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, listed, meta = volume(tmp_path / "v"), list[Any](), tmp_path / "v" / "log" / "meta.properties"
    read, scandir = os.read, os.scandir
    monkeypatch.setattr(os, "scandir", lambda at: listed.append(at) or scandir(at))  # type: ignore[func-returns-value]
    fresh = quick_check(watch, 1.0)
    assert fresh.stamp is None, "a file that has just changed may change again in the same moment"

    monkeypatch.setattr(time, "time_ns", lambda: 2 * meta.stat().st_ctime_ns)
    first = quick_check(watch, 2.0, fresh)
    listed.clear()
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("nothing has changed"))
    again = quick_check(watch, 3.0, first)
    assert (again.stamp, again.fingerprint) == (first.stamp, first.fingerprint)
    assert well(again.glanced)
    assert again.glanced.at == 3.0
    assert len(listed) == 1, "only the root: the log dir has thousands of partitions"

    monkeypatch.setattr(os, "read", read)
    meta.write_text("other")
    after = quick_check(watch, 4.0, again)
    assert after.fingerprint != again.fingerprint
    (tmp_path / "v" / "spindle.json").unlink()
    assert not quick_check(watch, 5.0, after).glanced.mounted


@pytest.mark.parametrize("call", ["open", "scandir", "fstatvfs"])
def test_an_unchanged_disk_that_returns_errors_is_not_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    watch = volume(tmp_path / "v")
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    before = quick_check(watch, 1.0)
    real = getattr(os, call)

    def fail(path: Any, *args: Any, **more: Any) -> Any:
        # A file system that has shut down still opens its root.
        if call == "open" and not str(path).startswith("/proc/self/fd"):
            return real(path, *args, **more)
        raise OSError(errno.EIO, "shut down")

    monkeypatch.setattr(os, call, fail)
    assert quick_check(watch, 2.0, before).glanced.errno == errno.EIO


def test_workers_of_all_disks_run_at_the_same_moments() -> None:
    for began in (0.0, 0.1, 17.3, 1e6 + 0.49):
        moment = (began + until_next(0.5, began)) / 0.5
        assert moment == pytest.approx(round(moment), abs=1e-6)
        assert 0 < until_next(0.5, began) <= 0.5


def test_what_is_run_before_the_fork_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rehearsal.run()
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    rehearsal.run()


def test_messages_are_those_that_earlier_workers_sent(tmp_path: Path) -> None:
    for message in (
        volume(tmp_path / "w"),
        full_check(volume(tmp_path / "v"), 1.0),
        Began(at=1.0),
        Probed(at=2.0, seconds=0.5, errno=5, doing="fsync"),
    ):
        assert json.loads(encode(message)) == [
            type(message).__name__,
            json.loads(json.dumps(asdict(message))),
        ]
        assert decode(encode(message)) == message


def test_an_error_of_the_disk_is_told_and_a_lack_of_rights_is_not_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = volume(tmp_path / "v")

    def fail(number: int) -> Any:
        def scandir(_: str) -> None:
            raise OSError(number, "no")

        return scandir

    monkeypatch.setattr(os, "scandir", fail(errno.EIO))
    assert quick_check(watch, 1.0).glanced.errno == errno.EIO
    monkeypatch.setattr(os, "scandir", fail(errno.EACCES))
    assert not quick_check(watch, 1.0).glanced.readable


# --- workers


class Ear:
    def __init__(self) -> None:
        self.heard: list[Report] = []
        self.starts = 0

    def report(self, _: Key, report: Report) -> None:
        self.heard.append(report)

    def start(self, _: Key) -> None:
        self.starts += 1

    def count(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self.heard)


@contextlib.asynccontextmanager
async def pool(ear: Ear) -> AsyncIterator[tuple[Pool, ForkServer]]:
    fork_server = ForkServer.start()
    made = Pool(fork_server, ear.report, ear.start)
    try:
        yield made, fork_server
    finally:
        made.close()
        fork_server.channel.close()


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


async def test_a_worker_looks_and_writes_and_ends_when_it_is_no_longer_wanted(tmp_path: Path) -> None:
    ear = Ear()
    async with pool(ear) as (made, fork_server):
        made.set({KEY: volume(tmp_path / "v")})
        await until(
            lambda: ear.count(Probed) > 3 and ear.count(Inspected) == 1 and ear.count(QuickChecked) >= 1
        )
        assert ear.count(Began) >= ear.count(Probed)
        (worker,) = children(fork_server.pid)
        made.set({})
        await until(lambda: not alive(worker))
        assert ear.starts == 1


async def test_another_record_reaches_the_worker_that_is_there(tmp_path: Path) -> None:
    ear = Ear()
    watch = volume(tmp_path / "v")
    async with pool(ear) as (made, fork_server):
        made.set({KEY: watch})
        await until(lambda: ear.count(Probed) > 1)
        made.set(
            {
                KEY: Watch(
                    path=watch.path,
                    cluster_id="cluster",
                    node_id=0,
                    disk="disk0",
                    directory_id="B" * 22,
                    interval=0.05,
                )
            }
        )
        await until(lambda: any(isinstance(each, Probed) and each.skipped for each in ear.heard))
        assert (ear.starts, len(children(fork_server.pid))) == (1, 1)
        other = volume(tmp_path / "w")
        made.set({KEY: other})
        await until(lambda: ear.starts == 2)


async def test_asked_again_a_worker_looks_and_writes_at_once(tmp_path: Path) -> None:
    ear = Ear()
    watch = volume(tmp_path / "v")
    slow = Watch(
        path=watch.path, cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID, interval=60.0
    )
    async with pool(ear) as (made, _):
        made.set({KEY: slow})
        await until(lambda: ear.count(Probed) == 1 and ear.count(Inspected) == 1)
        made.again(KEY)
        await until(lambda: ear.count(Probed) == 2 and ear.count(Inspected) == 2)


async def test_a_worker_that_dies_has_a_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_RESPAWN_AFTER", 0.05)
    ear = Ear()
    async with pool(ear) as (made, fork_server):
        made.set({KEY: volume(tmp_path / "v")})
        await until(lambda: ear.count(Probed) > 0)
        (worker,) = children(fork_server.pid)
        os.kill(worker, signal.SIGKILL)
        await until(lambda: ear.starts == 2)
        seen = ear.count(Probed)
        await until(lambda: ear.count(Probed) > seen)


async def test_a_stuck_worker_is_replaced_only_when_something_else_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted: list[tuple[int, str] | None] = [(1, "8:1")]
    monkeypatch.setattr(pools, "_mount", lambda _: mounted[0])
    ear = Ear()
    async with pool(ear) as (made, _):
        made.set({KEY: volume(tmp_path / "v")})
        await until(lambda: ear.count(Probed) > 0)
        worker = made._workers[KEY]
        made._take(KEY, worker, Inspected(at=0.0, found=full_check(worker.watch, 0.0).found))
        made._take(KEY, worker, Began(at=0.0))
        made.replace_stuck(1.0)
        made.replace_stuck(100.0)
        assert ear.starts == 1
        mounted[0] = (2, "8:1")
        made.replace_stuck(101.0)
        assert ear.starts == 2


async def test_without_the_process_that_workers_come_from_the_agent_hears_of_it(tmp_path: Path) -> None:
    ear = Ear()
    async with pool(ear) as (made, fork_server):
        made.set({KEY: volume(tmp_path / "v")})
        await until(lambda: ear.count(Probed) > 0)
        os.kill(fork_server.pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, fork_server.pid, 0)
        fork_server.channel.setblocking(True)
        with contextlib.suppress(ConnectionResetError):
            assert fork_server.channel.recv(1) == b""
        with pytest.raises(OSError):
            fork_server.spawn(volume(tmp_path / "w"))


async def test_what_a_worker_may_take_is_counted_from_what_it_was_forked_with(tmp_path: Path) -> None:
    ballast = bytearray(512 << 20)  # never touched, so it costs nothing
    ear = Ear()
    async with pool(ear) as (made, _):
        made.set({KEY: volume(tmp_path / "v")})
        await until(lambda: ear.count(Probed) > 1)
    assert ballast


async def test_workers_end_with_the_agent(tmp_path: Path) -> None:
    """The agent is killed: its channels close, and neither the workers nor where they come from stay."""
    end, other = socket.socketpair()
    agent = os.fork()
    if agent == 0:
        fork_server = ForkServer.start()
        channel = fork_server.spawn(volume(tmp_path / "v"))
        channel.setblocking(True)
        channel.recv(65536)
        end.send(f"{fork_server.pid} {children(fork_server.pid)[0]}".encode())
        signal.pause()
    pids = [int(each) for each in (await asyncio.to_thread(other.recv, 100)).split()]
    os.kill(agent, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, agent, 0)
    await until(lambda: not any(alive(pid) for pid in pids))

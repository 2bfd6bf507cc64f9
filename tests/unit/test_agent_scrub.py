"""Reading segments from files: what is found, what is kept, and what a process for a disk tells."""

import asyncio
import os
import select
import socket
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spindle.api.broker import ObservedDisk
from spindle.api.enums import SegmentErrorKind
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import Identity, MetaProperties, render_identity
from spindle.scrub.catalog import Segment, file_name
from spindle.scrub.confirmation import SegmentPlace, SegmentProblem
from spindle.scrub.schedule import Run, checked_at
from spindle.scrub.segment_errors import SegmentError
from spindle_agent.disk import Disk, WatchedDisk, first_of, pace_of
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import LARGEST, Inspected, decode, encode
from spindle_agent.publish import significant
from spindle_agent.scrub import scrubs as scrubs_module
from spindle_agent.scrub import store, worker
from spindle_agent.scrub import survey as survey_module
from spindle_agent.scrub.messages import Scrub, Scrubbed
from spindle_agent.scrub.reader import Reader, Scanned
from spindle_agent.scrub.scrubs import Key, Scrubs, describe, tell
from spindle_agent.scrub.survey import survey
from tests.unit.agent_fakes import until as until_within
from tests.unit.scrub_logs import log

ID = "A" * 22
KEY = ("ns", "demo-broker-0", "disk0")
PIECE = 64 * 1024
OLD = time.time() - 3600
PATIENCE = 120.0  # the processes give way to all others


def later(seconds: float) -> Any:
    """The event loop's clock, ahead by so much."""
    before = asyncio.get_running_loop().time
    return lambda: before() + seconds


def closed(channel: socket.socket) -> bool:
    return bool(select.select([channel], [], [], 0)[0])


async def until(what: Any) -> None:
    await until_within(what, PATIENCE)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def partition(log_dir: Path, name: str = "t-0", segments: int = 3, records: int = 40) -> list[Segment]:
    """A folder with contiguous segments, the last of which is active; returns the inactive ones."""
    folder = log_dir / name
    folder.mkdir(parents=True)
    found, base = [], 0
    for _ in range(segments):
        made = log([[b"x" * 700, b"y"] for _ in range(records)], base=base, interval=4096)
        for extension, data in (("log", made.data), ("index", made.offsets), ("timeindex", made.times)):
            file = folder / file_name(base, extension)
            file.write_bytes(data)
            os.utime(file, (OLD, OLD))
        found.append(Segment(base, made.end))
        base = made.end
    return found[:-1]


def damage(file: Path, at: int, bit: int = 3) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 1 << bit]))
    os.utime(file, (OLD, OLD))


def scan(
    folder: Path, segment: Segment, before: int | None = None, reader: Reader | None = None
) -> Scanned | None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return (reader or Reader(PIECE, lambda _: None)).scan(descriptor, segment, before)
    finally:
        os.close(descriptor)


def test_good_segments_are_read_whole_and_have_no_finds(tmp_path: Path) -> None:
    first, second = partition(tmp_path, records=200)
    sizes: list[int] = []
    reader = Reader(PIECE, sizes.append)
    found = scan(tmp_path / "t-0", first, None, reader)
    assert found is not None
    assert found.finds == ()
    assert found.size == sum(sizes) > (tmp_path / "t-0" / file_name(first.base, "log")).stat().st_size
    assert max(sizes) <= PIECE
    assert scan(tmp_path / "t-0", second, first.base, reader) is not None


@pytest.mark.parametrize("file", ["log", "index", "timeindex"])
def test_a_flipped_bit_in_each_of_its_files_is_found(tmp_path: Path, file: str) -> None:
    first, _ = partition(tmp_path)
    damage(tmp_path / "t-0" / file_name(first.base, file), 70 if file == "log" else 2)
    found = scan(tmp_path / "t-0", first)
    assert found is not None
    assert {find.file for find in found.finds} == {file}


def test_without_direct_reading_memory_is_dropped_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = partition(tmp_path)
    plain = os.open
    dropped: list[Any] = []

    def refuse(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "no direct I/O here")
        return plain(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "posix_fadvise", lambda *args: dropped.append(args[1:]))
    found = scan(tmp_path / "t-0", first)
    assert found is not None
    assert (found.finds, found.direct) == ((), False)
    assert (0, PIECE, os.POSIX_FADV_DONTNEED) in dropped


def test_bytes_that_the_disk_does_not_give_are_a_find_and_a_disk_that_is_gone_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = partition(tmp_path)

    def fails(number: int) -> Any:
        def preadv(*_: object) -> int:
            raise OSError(number, "no")

        return preadv

    monkeypatch.setattr(os, "preadv", fails(5))
    found = scan(tmp_path / "t-0", first)
    assert found is not None
    assert [(find.kind, find.position) for find in found.finds] == [(SegmentErrorKind.UNREADABLE, 0)]
    monkeypatch.setattr(os, "preadv", fails(107))
    with pytest.raises(OSError, match="no"):
        scan(tmp_path / "t-0", first)


def test_a_segment_that_changes_while_it_is_read_says_nothing(tmp_path: Path) -> None:
    first, second = partition(tmp_path)
    folder = tmp_path / "t-0"
    kept = (folder / file_name(first.base, "log")).read_bytes()

    def merged(
        _: int,
    ) -> None:  # as the cleaner does it: another file takes the name, and the next segment goes
        swap = folder / "swap"
        swap.write_bytes(kept)
        swap.rename(folder / file_name(first.base, "log"))

    damage(folder / file_name(first.base, "log"), 70)
    assert scan(folder, first, None, Reader(PIECE, merged)) is None
    damage(folder / file_name(first.base, "log"), 70)

    def rolled_back(_: int) -> None:
        for extension in ("log", "index", "timeindex"):
            (folder / file_name(second.base, extension)).unlink(missing_ok=True)

    assert scan(folder, first, None, Reader(PIECE, rolled_back)) is None
    (folder / file_name(first.base, "log")).unlink()
    assert scan(folder, first) is None


def test_a_look_through_a_log_dir_finds_what_is_inactive_and_nothing_else(tmp_path: Path) -> None:
    partition(tmp_path, "t-0"), partition(tmp_path, "t-1.abc-delete"), partition(tmp_path, "u-3", segments=1)
    (tmp_path / "meta.properties").write_text("version=1")
    (tmp_path / "file-0").write_text("no folder")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    found = list(survey(descriptor, never))
    os.close(descriptor)
    assert [(each.folder, each.segment.base) for each in found] == [("t-0", 0), ("t-0", 80)]
    assert all(abs(each.written - OLD) < 1 for each in found)


def test_what_somebody_leaves_on_the_disk_does_not_take_the_nodes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = partition(tmp_path, "t-0")
    index = tmp_path / "t-0" / file_name(first.base, "index")
    os.truncate(index, 1 << 28)
    os.utime(index, (OLD, OLD))
    read: list[int] = []
    found = scan(tmp_path / "t-0", first, None, Reader(1 << 20, read.append))
    assert found is not None
    assert sum(read) < 1 << 26, "a file that takes no space may be of any size"
    root = os.open(tmp_path, os.O_RDONLY)
    document = b'{"runs":{"t-0":[' + b",".join([b"[0,9,7]"] * 10**6) + b']},"troubles":[]}'
    (tmp_path / ".spindle-scrub").write_bytes(
        f"spindle-scrub-1 {ID} {zlib.crc32(document):08x}\n".encode() + document
    )
    assert store.read(root, ID).runs == {}
    for strange in (b"[" * 60_000, b"[]", b'{"runs":{"a":[[1e999,1,1]]},"troubles":[]}', b'{"runs":1}'):
        kept = f"spindle-scrub-1 {ID} {zlib.crc32(strange):08x}\n".encode() + strange
        (tmp_path / ".spindle-scrub").write_bytes(kept)
        assert store.read(root, ID).runs == {}
    monkeypatch.setattr(survey_module, "_MOST_NAMES", 5, raising=False)
    assert not list(survey(root, never))
    os.close(root)


def never(folder: str, error: OSError) -> None:
    raise AssertionError(folder) from error


def hide(monkeypatch: pytest.MonkeyPatch, name: str, *functions: str) -> None:
    """The disk has lost what is of this name: each of these functions of ``os`` fails for it, others work."""
    for function in functions:
        plain = getattr(os, function)

        def refuse(path: Any, *args: Any, _plain: Any = plain, **more: Any) -> Any:
            if path == name:
                raise OSError(5, "Input/output error")
            return _plain(path, *args, **more)

        monkeypatch.setattr(os, function, refuse)


def test_a_folder_or_an_inode_that_the_disk_does_not_give_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = partition(tmp_path, "t-0")
    partition(tmp_path, "a-0"), partition(tmp_path, "u-0")
    hide(monkeypatch, file_name(second.base, "log"), "stat")
    hide(monkeypatch, "a-0", "open")
    hidden: list[str] = []
    descriptor = os.open(tmp_path, os.O_RDONLY)
    found = list(survey(descriptor, lambda folder, _: hidden.append(folder)))
    os.close(descriptor)
    # Both partitions have a segment of that name.
    assert [(each.folder, each.segment.base) for each in found] == [
        (folder, base) for folder in ("t-0", "u-0") for base in (first.base, second.base)
    ]
    assert hidden == ["a-0"]
    for file in ("log", "index"):
        hide(monkeypatch, file_name(first.base, file), "stat")
        read = scan(tmp_path / "t-0", first)
        assert read is not None
        assert [(find.kind, find.position) for find in read.finds] == [(SegmentErrorKind.UNREADABLE, 0)]
    read = scan(tmp_path / "t-0", second, first.base)
    assert read is not None
    assert read.finds[0].file == "log"


def test_a_file_that_cannot_be_opened_is_a_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = partition(tmp_path)
    hide(monkeypatch, file_name(first.base, "timeindex"), "open")
    found = scan(tmp_path / "t-0", first)
    assert found is not None
    assert [(find.kind, find.file) for find in found.finds] == [(SegmentErrorKind.UNREADABLE, "timeindex")]


def test_what_was_checked_is_kept_on_the_disk(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    trouble = SegmentProblem(
        SegmentPlace("t-0", 0),
        ((1, 2, 3), (), ()),
        (SegmentError(SegmentErrorKind.CRC, "log", 1, None, "x"),),
        5.0,
        6.0,
    )
    assert store.read(root, ID).runs == {}
    suspect = replace(trouble, place=SegmentPlace("t-0", 9))
    store.write(root, ID, {"t-0": (Run(0, 9, 7.0),)}, [trouble], [suspect])
    kept = store.read(root, ID)
    assert kept.runs == {"t-0": (Run(0, 9, 7.0),)}
    assert kept.troubles == (replace(trouble, replica_index=0.0),)
    assert kept.suspects == (replace(suspect, replica_index=0.0),)
    assert store.read(root, "B" * 22).runs == {}
    assert [each.name for each in tmp_path.iterdir()] == [".spindle-scrub"]
    os.close(root)


# A process for a disk


def order(tmp_path: Path, **more: Any) -> Scrub:
    identity = Identity("cluster", 0, "disk0", ID)
    (tmp_path / "spindle.json").write_text(render_identity(identity, None))
    fields = {"rate": 10**9, "every_days": 30} | more
    return Scrub(path=str(tmp_path), cluster_id="cluster", node_id=0, disk="disk0", directory_id=ID, **fields)


@asynccontextmanager
async def scrubs(
    monkeypatch: pytest.MonkeyPatch, confirm_after: float = 0.2
) -> AsyncIterator[tuple[Scrubs, list[Key], ForkServer]]:
    monkeypatch.setattr(worker, "CONFIRM_AFTER", confirm_after)
    monkeypatch.setattr(worker, "_SURVEY_SOON", 0.1)
    monkeypatch.setattr(worker, "_TELL_EVERY", 0.1)
    monkeypatch.setattr(worker, "_TOUCHED_EVERY", 0.1)
    monkeypatch.setattr(worker, "_SAVE_EVERY", 0.1)
    monkeypatch.setattr(worker, "_IDLE", 0.1)
    fork_server, changed = ForkServer.start(), list[Key]()
    made = Scrubs(fork_server, changed.append)
    try:
        yield made, changed, fork_server
    finally:
        made.close()
        fork_server.channel.close()


async def test_a_process_checks_a_disk_and_what_is_corrupt_is_told_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = partition(tmp_path / "log")
    damage(tmp_path / "log/t-0" / file_name(second.base, "log"), 500)
    async with scrubs(monkeypatch) as (made, changed, fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        told = made.told(KEY)
        assert ObservedDisk.parse({"name": "disk0", "verdict": "Healthy", **told})
        (entry,) = told["corrupt"]
        assert (entry["topic"], entry["partition"], entry["segment"]) == ("t", 0, second.base)
        assert (entry["kind"], entry["file"]) == ("Crc", "log")
        await until(lambda: made.told(KEY)["scrub"]["percent"] == 100)
        assert KEY in changed
        for file in (tmp_path / "log/t-0").glob(f"{first.base:020d}.*"):
            file.unlink()  # as retention does: that one is none of those that were corrupt
        (tmp_path / "log/t-0").rename(tmp_path / "log/t-0.x-delete")
        await until(lambda: "corrupt" not in made.told(KEY))
        ((_, report, read, scans),) = made.reports()
        assert read >= report.read > 0
        assert scans >= 3
        await until((tmp_path / ".spindle-scrub").exists)
        made.set({})
        await until(lambda: not children(fork_server.pid))


async def test_what_was_found_and_checked_outlives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = partition(tmp_path / "log")
    damage(tmp_path / "log/t-0" / file_name(first.base, "log"), 500)
    async with scrubs(monkeypatch) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        root = os.open(tmp_path, os.O_RDONLY)
        await until(lambda: bool(store.read(root, ID).troubles) and bool(store.read(root, ID).runs))
        os.close(root)
        since = made.told(KEY)["corrupt"][0]["since"]
    async with scrubs(monkeypatch) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path, rate=65536)})  # too slow to find it twice at once
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        assert made.told(KEY)["corrupt"][0]["since"] == since


async def test_a_suspicion_outlives_the_process_and_its_segment_is_not_on_record_as_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = partition(tmp_path / "log")
    damage(tmp_path / "log/t-0" / file_name(first.base, "log"), 500)
    root = os.open(tmp_path, os.O_RDONLY)
    async with scrubs(monkeypatch, confirm_after=3600.0) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(store.read(root, ID).suspects) and bool(store.read(root, ID).runs))
        await until(lambda: checked_at(store.read(root, ID).runs["t-0"], second.base) is not None)
        memory = store.read(root, ID)
        assert checked_at(memory.runs["t-0"], first.base) is None
        assert memory.troubles == ()
    os.close(root)
    async with scrubs(monkeypatch) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        since = made.told(KEY)["corrupt"][0]["since"]
        (suspect,) = memory.suspects
        assert since == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(suspect.since))


async def test_a_folder_that_the_disk_does_not_give_is_told_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log", "a-0"), partition(tmp_path / "log", "t-0")
    partition(tmp_path / "log", "u-0")
    hide(monkeypatch, "t-0", "open")
    async with scrubs(monkeypatch) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        (entry,) = made.told(KEY)["corrupt"]
        assert (entry["topic"], entry["kind"]) == ("t", "Unreadable")
        assert "the folder" in entry["message"]
        root = os.open(tmp_path, os.O_RDONLY)
        await until(lambda: store.read(root, ID).runs.keys() == {"a-0", "u-0"})
        os.close(root)


async def test_replicas_that_are_asked_about_are_told_to_be_sound_once_all_of_them_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log", "a-0"), partition(tmp_path / "log", "t-1", segments=1)
    _, second = partition(tmp_path / "log", "t-0")
    damage(tmp_path / "log/t-0" / file_name(second.base, "log"), 500)
    async with scrubs(monkeypatch) as (made, _changed, _fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path, first=["a-0", "t-0", "t-1", "gone-0"])})
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        await until(lambda: made.told(KEY)["scrub"]["percent"] == 100)
        # Of t-1 nothing is at rest, so nothing of it was read.
        assert made.told(KEY)["scrub"]["sound"] == [{"topic": "a", "partition": 0}]


async def test_a_process_with_nothing_to_do_ends_and_another_looks_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log")
    monkeypatch.setattr(scrubs_module, "_AGAIN_AFTER", 0.0)
    async with scrubs(monkeypatch) as (made, _, fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: bool(children(fork_server.pid)))
        await until(lambda: not children(fork_server.pid))
        assert made.told(KEY)["scrub"]["percent"] == 100
        ((_, _, size, count),) = made.reports()
        assert count == 2

        made.set({KEY: order(tmp_path)})
        await asyncio.sleep(0.3)
        assert not children(fork_server.pid)
        stored = (tmp_path / ".spindle-scrub").read_bytes()
        partition(tmp_path / "log", "u-0")
        monkeypatch.setattr(asyncio.get_running_loop(), "time", later(scrubs_module._REST))
        made.set({KEY: order(tmp_path)})
        await until(lambda: [each[3] for each in made.reports()] == [4])
        await until(lambda: not children(fork_server.pid))
        ((_, _, read, _),) = made.reports()
        assert read == 2 * size  # only what was new, and both processes count
        assert (tmp_path / ".spindle-scrub").read_bytes() != stored


async def test_a_process_that_is_asked_or_watches_what_is_corrupt_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log", "a-0")
    monkeypatch.setattr(scrubs_module, "_AGAIN_AFTER", 0.0)
    async with scrubs(monkeypatch) as (made, _, fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path, first=["a-0"])})
        await until(lambda: bool(made.told(KEY).get("scrub", {}).get("sound")))
        await asyncio.sleep(0.5)
        assert len(children(fork_server.pid)) == 1
        made.set({KEY: order(tmp_path)})
        await until(lambda: not children(fork_server.pid))

        made.set({KEY: order(tmp_path, first=["a-0"])})  # another order does not wait
        await until(lambda: bool(children(fork_server.pid)))
        _, second = partition(tmp_path / "log", "t-0")
        damage(tmp_path / "log/t-0" / file_name(second.base, "log"), 500)
        await until(lambda: bool(made.told(KEY).get("corrupt")))
        made.set({KEY: order(tmp_path)})
        await asyncio.sleep(0.5)
        assert len(children(fork_server.pid)) == 1


async def test_a_process_that_cannot_store_what_it_has_checked_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log")
    monkeypatch.setattr(store, "_MOST", 10)
    async with scrubs(monkeypatch) as (made, _, fork_server):
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        await until(lambda: made.told(KEY).get("scrub", {}).get("percent") == 100)
        await asyncio.sleep(0.5)
        assert len(children(fork_server.pid)) == 1
        assert not (tmp_path / ".spindle-scrub").exists()


async def test_a_process_that_rests_on_an_earlier_order_goes_on_with_the_present_one(tmp_path: Path) -> None:
    fork_server = ForkServer.start()
    made = Scrubs(fork_server, lambda _: None)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(fork_server, "spawn", lambda _: ours)
    try:
        ours.setblocking(False)
        made.sees(KEY, ID, None)
        made.set({KEY: order(tmp_path)})
        made.set({KEY: order(tmp_path, rate=7)})
        theirs.send(encode(Scrubbed(directory_id=ID, resting=True, orders=0)))
        await until(lambda: bool(list(made.reports())))
        assert decode(theirs.recv(LARGEST)).rate == 7
        theirs.send(encode(Scrubbed(directory_id=ID, resting=True, orders=1)))
        await until(lambda: closed(theirs))
        assert theirs.recv(LARGEST) == b""
    finally:
        monkey.undo()
        made.close()
        theirs.close()
        fork_server.channel.close()


async def test_a_disk_of_another_identity_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "log")
    wrong = replace(order(tmp_path), directory_id="B" * 22)
    async with scrubs(monkeypatch) as (made, _, fork_server):
        made.sees(KEY, "B" * 22, None)
        made.set({KEY: wrong})
        await until(lambda: bool(children(fork_server.pid)))
        made.set({KEY: order(tmp_path)})  # the one that is there takes the other order
        made.sees(KEY, ID, None)
        await until(lambda: made.told(KEY).get("scrub", {}).get("percent") == 100)
        assert len(children(fork_server.pid)) <= 1  # it may have ended: nothing is left to check
    assert (
        not (tmp_path / ".spindle-scrub").exists()
        or b"B" * 22 not in (tmp_path / ".spindle-scrub").read_bytes()
    )


def test_what_was_told_before_a_restart_stands_until_there_is_another_word() -> None:
    made = Scrubs(ForkServer.__new__(ForkServer), lambda _: None)
    before = {"name": "disk0", "scrub": {"percent": 7}, "corrupt": [{"topic": "t"}]}
    made.sees(KEY, ID, before)
    assert made.told(KEY) == {"scrub": {"percent": 7}, "corrupt": [{"topic": "t"}]}
    made.sees(KEY, "B" * 22, before)
    assert made.told(KEY) == {}
    made.keep([])
    assert made.told(KEY) == {}


def test_figures_are_coarse_and_finds_are_told_at_once() -> None:
    report = Scrubbed(directory_id=ID, bytes=1000, checked=559, oldest=7200.0 + 77, corrupt=0)
    assert tell(report) == {"scrub": {"percent": 55, "corrupt": 0, "oldest": "1970-01-01T02:00:00Z"}}
    assert tell(Scrubbed(directory_id=ID))["scrub"]["percent"] == 100
    entry = {
        "topic": "t",
        "partition": 0,
        "segment": 9,
        "kind": "Crc",
        "file": "log",
        "position": 3,
        "message": "m",
    }
    assert describe(entry) == "segment 9 of t-0 is corrupt: Crc at byte 3 of its log (m)"
    disk = {"name": "disk0", "verdict": "Healthy"}
    assert significant({"disks": [disk | tell(report)]}) == significant({"disks": [disk]})
    sound = {"scrub": {"sound": [{"topic": "t", "partition": 0}]}}
    assert significant({"disks": [disk | sound]}) != significant({"disks": [disk]})
    assert significant({"disks": [disk | {"corrupt": [entry]}]}) != significant({"disks": [disk]})


# Which disks are read


def test_only_a_disk_that_is_well_and_ours_and_in_use_is_read() -> None:
    slot = WatchedDisk(
        0, "disk0", ID, "/mnt/a", "/log", None, "Active", scrub=pace_of({"scrub": {"everyDays": 3}})
    )
    assert slot.scrub == (10_000_000, 3)
    assert pace_of({}) is None
    assert first_of({"scrub": {"first": [{"topic": "a-b", "partition": 3}]}}) == ("a-b-3",)
    assert first_of({}) == ()

    def reads(slot: WatchedDisk, verdict: str, *, ours: bool = True) -> bool:
        disk = Disk(slot, 0.0)
        disk.resume({"verdict": verdict}, 0.0)
        carried = ID if ours else "B" * 22
        identity, meta = Identity("cluster", 0, "disk0", carried), MetaProperties("cluster", 0, carried)
        disk.take(Inspected(at=0.0, found=Found(mounted=True, identity=identity, meta=meta)))
        return disk.scrubbing() is not None

    assert reads(slot, "Healthy")
    assert not reads(slot, "Healthy", ours=False)
    assert not reads(slot, "Suspect")
    assert not reads(slot, "Slow")
    assert not reads(replace(slot, mode="Absent"), "Healthy")
    assert not reads(replace(slot, scrub=None), "Healthy")

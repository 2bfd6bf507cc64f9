"""What agent and preflight open on a volume, with everything on it that Kafka's container could have left there."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spindle.api import names
from spindle.model.disk_facts import Expected, Found
from spindle.model.disk_identity import (
    META_PROPERTIES,
    Identity,
    MetaProperties,
    render_identity,
    render_meta_properties,
)
from spindle.model.layout import Layout
from spindle_agent import volume
from spindle_agent.preflight import prepare
from spindle_agent.preflight.look import PROBE_FILE, look_at
from spindle_agent.probing import ballast
from spindle_agent.probing.messages import Remember, Watch
from spindle_agent.probing.probe import memory, probe
from spindle_agent.probing.usage_record import UsageRecord
from spindle_agent.usage import store
from spindle_agent.usage.records import Sample
from spindle_agent.volume import ForeignFileError


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "disk" / "log" / "t-0").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "segment").write_bytes(b"acknowledged")
    with volume.opened_root(str(tmp_path / "disk")) as opened:
        yield opened


def test_a_plain_file_is_read_and_written(root: int) -> None:
    file = volume.open_file(root, "log/t-0/notes", os.O_RDWR | os.O_CREAT)
    os.write(file, b"abc")
    os.close(file)
    assert volume.read_bytes(root, "log/t-0/notes", 10) == b"abc"
    again = volume.open_file(root, "log/t-0/notes", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.close(again)
    assert volume.read_bytes(root, "log/t-0/notes", 10) == b""


@pytest.mark.parametrize("part", ["a", "a/b", "a/b/mount"])
def test_the_root_below_a_folder_of_others_is_reached_through_no_link(tmp_path: Path, part: str) -> None:
    target = tmp_path / "a" / "b" / "mount"
    target.mkdir(parents=True)
    os.close(volume.open_root(str(target), str(tmp_path)))

    moved = tmp_path / "elsewhere"
    (tmp_path / part).rename(moved)
    (tmp_path / part).symlink_to(moved)
    assert target.is_dir(), "the path leads there"
    with pytest.raises(FileNotFoundError):
        volume.open_root(str(target), str(tmp_path))
    os.close(volume.open_root(str(target)))
    with pytest.raises(ValueError):
        volume.open_root(str(tmp_path / ".." / "x"), str(tmp_path))


def test_what_is_not_there_is_not_there(root: int) -> None:
    assert volume.read_text(root, "nothing", 10) is None
    assert volume.read_text(root, "no/folder", 10) is None
    with pytest.raises(FileNotFoundError):
        volume.open_file(root, "nothing")
    with pytest.raises(FileNotFoundError):
        volume.open_folder(root, "nothing")


@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC]
)
@pytest.mark.parametrize("kind", ["symlink", "dangling", "hard link", "fifo", "folder", "socket"])
def test_what_is_no_plain_file_is_refused(root: int, tmp_path: Path, kind: str, flags: int) -> None:
    at, victim = tmp_path / "disk" / "ours", tmp_path / "other" / "segment"
    match kind:
        case "symlink":
            at.symlink_to("../other/segment")
        case "dangling":
            at.symlink_to("../other/new")
        case "hard link":
            at.hardlink_to(victim)
        case "fifo":
            os.mkfifo(at)
        case "folder":
            at.mkdir()
        case _:
            os.mknod(at, 0o140600)
    with pytest.raises(ForeignFileError) as refused:
        volume.open_file(root, "ours", flags)
    assert refused.value.errno == errno.ELOOP
    assert victim.read_bytes() == b"acknowledged"
    assert not (tmp_path / "other" / "new").exists()


def test_a_device_is_refused(root: int, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.mknod(tmp_path / "disk" / "ours", 0o20600, os.makedev(1, 3))
    with pytest.raises(ForeignFileError):
        volume.open_file(root, "ours")


def test_a_folder_that_is_a_link_is_refused(root: int, tmp_path: Path) -> None:
    (tmp_path / "disk" / "log" / "t-0").rmdir()
    (tmp_path / "disk" / "log" / "t-0").symlink_to(tmp_path / "other")
    with pytest.raises(ForeignFileError):
        volume.open_folder(root, "log/t-0")
    for name, flags in (("segment", os.O_RDWR), ("new", os.O_WRONLY | os.O_CREAT)):
        with pytest.raises(ForeignFileError):
            volume.open_file(root, f"log/t-0/{name}", flags)
    assert {each.name for each in (tmp_path / "other").iterdir()} == {"segment"}


def test_a_path_out_of_the_root_is_refused(root: int) -> None:
    with pytest.raises(ValueError, match="below the root"):
        volume.open_file(root, "../other/segment")


def test_a_folder_swapped_between_two_looks_leads_nowhere(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever swaps the folder right after it was looked at has us in the folder that was looked at."""
    inner = tmp_path / "disk" / "log"
    (inner / "segment").write_bytes(b"mine")
    original = volume._check_folder

    def swap(about: os.stat_result, device: int, path: str) -> None:
        original(about, device, path)
        inner.rename(tmp_path / "disk" / "moved")
        inner.symlink_to(tmp_path / "other")

    monkeypatch.setattr(volume, "_check_folder", swap)
    assert volume.read_bytes(root, "log/segment", 20) == b"mine"


def test_a_file_swapped_after_it_was_looked_at_is_the_one_looked_at(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "disk" / "ours"
    file.write_bytes(b"mine")
    real = os.open

    def swapping(path: str, *args: int, **more: int) -> int:
        if str(path).startswith("/proc/self/fd/") and args[0] & os.O_RDWR:
            file.rename(tmp_path / "disk" / "old")
            file.symlink_to(tmp_path / "other" / "segment")
        return real(path, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", swapping)
        opened = volume.open_file(root, "ours", os.O_RDWR)
    os.pwrite(opened, b"OURS", 0)
    os.close(opened)
    assert (tmp_path / "other" / "segment").read_bytes() == b"acknowledged"


def test_a_mount_on_the_volume_is_refused(root: int, tmp_path: Path) -> None:
    """Tried with what every Linux has: a file system of its own below the root. /proc stands in for a mount made by hand."""
    proc = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(ForeignFileError, match="another file system"):
            volume.open_file(proc, "proc/self/status")
    finally:
        os.close(proc)


# --- what agent and preflight do with a volume on which links wait for them


def _disk(folder: Path) -> Watch:
    identity = Identity("cluster", 0, "disk0", "A" * 22)
    (folder / "log").mkdir(parents=True, exist_ok=True)
    (folder / "log" / META_PROPERTIES).write_text(render_meta_properties(identity))
    (folder / names.IDENTITY_FILE).write_text(render_identity(identity, None))
    return Watch(path=str(folder), node_id=0, cluster_id="cluster", disk="disk0", directory_id="A" * 22)


def test_the_probe_does_not_write_through_a_link(root: int, tmp_path: Path) -> None:
    watch = _disk(tmp_path / "disk")
    (tmp_path / "disk" / PROBE_FILE).symlink_to("../other/segment")
    probed = probe(watch, memory(), memory())
    assert (probed.errno, probed.doing) == (errno.ELOOP, "open")
    assert (tmp_path / "other" / "segment").read_bytes() == b"acknowledged"


def test_the_record_of_fill_is_not_written_through_a_link(root: int, tmp_path: Path) -> None:
    (tmp_path / "disk" / names.HISTORY_FILE).symlink_to("../other/segment")
    with pytest.raises(ForeignFileError):
        store.write(root, "A" * 22, [Sample(1, 1, 1, 0, 0)])
    assert (tmp_path / "other" / "segment").read_bytes() == b"acknowledged"


def test_a_disk_whose_log_dir_is_a_link_is_not_blank(root: int, tmp_path: Path) -> None:
    (tmp_path / "disk" / "log" / "t-0").rmdir()
    (tmp_path / "disk" / "log").rmdir()
    (tmp_path / "disk" / "log").symlink_to("../other")
    found = look_at(str(tmp_path / "disk"), -1, shared=True, probe_if_of="cluster")
    assert found.partitions
    assert found.garbled is not None
    assert "link" in found.garbled


def test_replicas_are_counted_by_their_folders(root: int, tmp_path: Path) -> None:
    log = tmp_path / "disk" / "log"
    before = look_at(str(tmp_path / "disk"), -1, shared=True).replicas
    for folder in (
        "a.b-7",
        f"c-1.{'0' * 32}-future",
        f"d-1.{'0' * 32}-delete",
        "e-1.x-stray",
        "remote-log-index-cache",
    ):
        (log / folder).mkdir()
    (log / "f-3").write_text("no folder")
    assert before == 1  # t-0
    assert look_at(str(tmp_path / "disk"), -1, shared=True).replicas == 3


def test_an_identity_behind_a_link_is_none(root: int, tmp_path: Path) -> None:
    _disk(tmp_path / "disk")
    (tmp_path / "disk" / names.IDENTITY_FILE).rename(tmp_path / "other" / "identity")
    (tmp_path / "disk" / names.IDENTITY_FILE).symlink_to("../other/identity")
    found = look_at(str(tmp_path / "disk"), -1, shared=True)
    assert found.identity is None
    assert found.garbled == f"{names.IDENTITY_FILE} is not a regular file"


# --- whose disk it is: nothing is written on one that names another cluster, or none that is on record


@pytest.mark.parametrize("on_record", ["another", ""], ids=["another cluster", "not known yet"])
def test_nothing_is_written_by_the_agent_unless_the_disk_names_the_cluster_on_record(
    tmp_path: Path, on_record: str
) -> None:
    watch = replace(_disk(tmp_path / "disk"), cluster_id=on_record, ballast=4096)
    before = _standing(tmp_path / "disk")
    assert probe(watch, memory(), memory()).skipped
    assert ballast.keep(watch) == 0
    past = UsageRecord()
    past.remember(Remember(directory_id=watch.directory_id, number=1, used=1, capacity=1, append=0, moved=0))
    past.see_to(watch, lambda _: None)
    assert _standing(tmp_path / "disk") == before
    assert not probe(replace(watch, cluster_id="cluster"), memory(), memory()).skipped


def test_preflight_tries_no_write_on_a_disk_of_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _disk(tmp_path / "disk")
    tried: list[str] = []

    def write(_: int) -> bool:
        tried.append("written")
        return True

    monkeypatch.setattr("spindle_agent.preflight.look._probe", write)
    for whose in ("another", "", "cluster"):
        assert not tried
        look_at(str(tmp_path / "disk"), -1, shared=True, probe_if_of=whose)
    assert tried == ["written"]


def test_a_disk_that_was_swapped_since_it_was_looked_at_is_not_adopted(tmp_path: Path) -> None:
    """Looked at was one of ours; when its identity file is to be written, a disk of another cluster stands there."""
    disk = Expected(cluster_id="ours", node_id=0, disk="disk0", directory_id="A" * 22)
    layout = Layout(str(tmp_path))
    mount = Path(layout.mount("disk0"))
    mount.mkdir(parents=True)
    _disk(mount)  # of "cluster"
    before = _standing(mount)
    looked_at = Found(mounted=True, meta=MetaProperties("ours", 0, "A" * 22))
    for write in (prepare.adopt, prepare.format_log_dir, prepare.begin_controller_format):
        with pytest.raises(ValueError, match="now names cluster cluster"):
            write(layout, disk, looked_at)
    assert _standing(mount) == before


def _standing(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

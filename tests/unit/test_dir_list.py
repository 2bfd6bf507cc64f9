"""The list of a broker's log dirs: on claims, in ``spindle.json``, and what preflight makes of it."""

from pathlib import Path

from spindle.api import names
from spindle.disks.judge import left_out
from spindle.model import inspection
from spindle.model.dir_list import NO_LIST, DirList, newest, parse_list
from spindle.model.disk_facts import PLACEHOLDER, Expected, Found
from spindle.model.disk_identity import parse_identity, parse_log_dirs, render_identity
from spindle.model.layout import Layout
from spindle_agent.preflight import prepare

ONE = DirList(3, {"disk0": "a"})
TWO = DirList(4, {"disk0": "a", "disk1": "b"})


def expected(disk: str, directory_id: str, mode: str = "Active") -> Expected:
    return Expected(cluster_id="c", node_id=0, disk=disk, directory_id=directory_id, mode=mode)


def test_it_comes_back_from_its_text_and_the_highest_generation_counts() -> None:
    assert parse_list(TWO.text()) == TWO
    assert newest([ONE, TWO, NO_LIST]) == TWO
    assert newest([]) == NO_LIST
    for text in (None, "", "[]", "7", "{", '{"generation": 0, "dirs": []}', '{"generation": 1}'):
        assert not parse_list(text)


def test_only_a_change_makes_a_new_generation() -> None:
    assert ONE.changed_to({"disk0": "a"}) == ONE
    assert ONE.changed_to({"disk0": "a", "disk1": "b"}) == TWO


def test_an_identity_file_from_before_has_none() -> None:
    one = expected("disk0", "a")
    assert not parse_log_dirs(render_identity(one.identity, "fs"))
    text = render_identity(one.identity, "fs", TWO)
    assert parse_log_dirs(text) == TWO
    assert parse_identity(text) == one.identity


def test_a_disk_gets_the_newer_list_and_never_an_older_one(tmp_path: Path) -> None:
    layout, disk = Layout(str(tmp_path)), expected("disk0", "a")
    root = Path(layout.mount("disk0"))
    root.mkdir(parents=True)
    file = root / names.IDENTITY_FILE

    def adopt(on_it: DirList, given: DirList) -> DirList:
        file.write_text(render_identity(disk.identity, "fs", on_it))
        found = Found(mounted=True, fs_uuid="fs", identity=disk.identity, log_dirs=on_it)
        prepare.adopt(layout, disk, found, given)
        return parse_log_dirs(file.read_text())

    assert adopt(NO_LIST, ONE) == ONE
    assert adopt(ONE, TWO) == TWO
    assert adopt(TWO, ONE) == TWO
    assert adopt(TWO, NO_LIST) == TWO


def test_a_broker_does_not_start_without_a_dir_that_its_disks_name() -> None:
    assert left_out([expected("disk0", "a")], TWO) == {"disk1": "b"}
    assert left_out([expected("disk0", "a"), expected("disk1", "old")], TWO) == {"disk1": "b"}
    assert left_out([expected("disk0", "a"), expected("disk1", "b")], TWO) == {}
    beside = expected("placeholder", "", PLACEHOLDER)
    assert left_out([expected("disk0", "a"), beside], TWO) == {}


def test_the_report_carries_it() -> None:
    text = inspection.render([{"name": "disk0", "state": "ours"}], TWO)
    assert inspection.parse_log_dirs(text) == TWO
    assert set(inspection.parse(text)) == {"disk0"}
    assert not inspection.parse_log_dirs(inspection.render([]))
    assert not inspection.parse_log_dirs("no report")

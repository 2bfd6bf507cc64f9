import errno
import json
from pathlib import Path

import pytest

from spindle.api import names
from spindle.model.disk_facts import InspectionId
from spindle.model.layout import Layout
from spindle_agent.preflight import main
from spindle_agent.preflight.filesystem import mount_at
from spindle_agent.preflight.inputs import (
    annotations,
    begin_look,
    read_clearances,
    read_leaving,
    read_look,
    unquote,
)
from spindle_agent.preflight.look import bounded


def podinfo(tmp_path: Path, text: str) -> Layout:
    layout = Layout(str(tmp_path))
    folder = Path(layout.podinfo_dir)
    folder.mkdir(parents=True)
    (folder / "annotations").write_text(text)
    return layout


def test_annotations_as_the_kubelet_writes_them(tmp_path: Path) -> None:
    layout = podinfo(tmp_path, 'a="b"\nc/d="[{\\"x\\": \\"\\\\\\\\\\"}]"\nempty=""\nbroken line\n')
    assert annotations(layout) == {"a": "b", "c/d": '[{"x": "\\\\"}]', "empty": ""}


@pytest.mark.parametrize(
    ("quoted", "plain"),
    [
        (r"a\tb\nc", "a\tb\nc"),
        (r"\"\\\"", '"\\"'),
        (r"\u00e9\x41\U0001f600\a", "éA😀\a"),
        ("zażółć", "zażółć"),
    ],
)
def test_unquote(quoted: str, plain: str) -> None:
    assert unquote(quoted) == plain


def test_clearances(tmp_path: Path) -> None:
    entry = {"disk": "disk0", "pvUid": "p", "fsUuid": None, "directoryId": "d", "nonce": "n", "podUid": "u"}
    layout = podinfo(tmp_path, f"{names.ANN_CLEARANCE}={json.dumps(json.dumps([entry]))}\n")
    (clearance,) = read_clearances(layout)
    assert (
        clearance.disk,
        clearance.fs_uuid,
        clearance.directory_id,
        clearance.nonce,
        clearance.pod_uid,
    ) == (
        "disk0",
        None,
        "d",
        "n",
        "u",
    )


@pytest.mark.parametrize("value", ["", "nonsense", "{}", '[{"disk": "disk0"}]'])
def test_clearance_that_is_none_permits_nothing(tmp_path: Path, value: str) -> None:
    assert read_clearances(podinfo(tmp_path, f"{names.ANN_CLEARANCE}={json.dumps(value)}\n")) == []


@pytest.mark.parametrize(
    ("value", "disks"), [("", set()), ("disk1", {"disk1"}), ("disk1,disk2", {"disk1", "disk2"})]
)
def test_disks_that_are_to_leave(tmp_path: Path, value: str, disks: set[str]) -> None:
    assert read_leaving(podinfo(tmp_path, f"{names.ANN_LEAVING}={json.dumps(value)}\n")) == disks


def test_mount_at(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_text(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 7:3 /sub\\040dir /var/lib/kafka/disks/disk0 rw,relatime - xfs /dev/loop3 rw\n"
        "31 22 7:4 / /var/lib/kafka/disks/disk0 rw - xfs /dev/loop4 rw\n"
    )
    found = mount_at("/var/lib/kafka/disks/disk0", str(path))
    assert found is not None
    assert (found.source, found.root, found.fs_type) == ("/dev/loop4", "/", "xfs")
    assert mount_at("/var/lib/kafka/disks", str(path)) is None


def test_disk_that_never_answers_holds_up_no_other() -> None:
    import threading

    hung = threading.Event()
    try:
        answers = bounded({"a": lambda: "fine", "b": lambda: str(hung.wait(60))}, late="late", timeout=0.2)
    finally:
        hung.set()
    assert answers == {"a": "fine", "b": "late"}


def test_each_look_invents_what_its_clearance_has_to_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path))
    Path(layout.handover_dir).mkdir(parents=True)
    monkeypatch.setenv(names.ENV_POD_UID, "u")

    first = begin_look(layout)
    second = begin_look(layout)

    assert first != second
    assert read_look(layout) == InspectionId(nonce=second, pod_uid="u")


def test_without_a_look_or_a_uid_nothing_can_be_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path))
    Path(layout.handover_dir).mkdir(parents=True)
    monkeypatch.setenv(names.ENV_POD_UID, "u")
    with pytest.raises(FileNotFoundError):
        read_look(layout)
    begin_look(layout)
    monkeypatch.setenv(names.ENV_POD_UID, "")
    with pytest.raises(ValueError, match="no UID"):
        read_look(layout)


def test_a_look_that_can_leave_nothing_behind_says_why_and_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(str(tmp_path))
    message = tmp_path / "message"
    monkeypatch.setenv("SPINDLE_TERMINATION_LOG", str(message))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert main.inspect(layout) == 1
    told = message.read_text()
    assert told in capsys.readouterr().out
    assert "No space left on device" in told
    assert "To resolve: free space" in told
    assert "Error(" not in told


def test_a_clearance_is_not_believed_where_the_look_left_nothing(tmp_path: Path) -> None:
    node = main._Preflight(Layout(str(tmp_path)), None, [])  # type: ignore[arg-type]
    with pytest.raises(main.RefusedError, match="To resolve: delete the pod"):
        node.answered()

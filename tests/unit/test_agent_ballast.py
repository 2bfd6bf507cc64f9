"""The ballast of a disk: made where there is room, given up where there is none."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spindle.api.names import BALLAST_FILE, IDENTITY_FILE
from spindle.model.disk_identity import Identity, render_identity
from spindle_agent.probing import ballast, worker
from spindle_agent.probing.messages import Probed, Watch

SIZE = 1 << 20


def watch(path: Path, size: int = SIZE) -> Watch:
    return Watch(
        path=str(path), cluster_id="cluster", node_id=0, disk="disk0", directory_id="d" * 22, ballast=size
    )


@pytest.fixture(autouse=True)
def ours(tmp_path: Path) -> None:
    """The disk is the one on record."""
    identity = Identity("cluster", 0, "disk0", "d" * 22)
    (tmp_path / IDENTITY_FILE).write_text(render_identity(identity, None))


def free(monkeypatch: pytest.MonkeyPatch, amount: int) -> None:
    sizes = SimpleNamespace(f_bavail=amount, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: sizes)


def standing(path: Path) -> int:
    file = path / BALLAST_FILE
    return file.stat().st_size if file.exists() else 0


def test_it_takes_up_room_and_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 4 * SIZE)
    assert ballast.keep(watch(tmp_path)) == SIZE
    assert (tmp_path / BALLAST_FILE).stat().st_blocks * 512 >= SIZE
    assert {file.name for file in tmp_path.iterdir()} == {BALLAST_FILE, IDENTITY_FILE}


def test_it_is_given_up_and_made_again_with_a_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 4 * SIZE - 1)
    assert ballast.keep(watch(tmp_path)) == 0
    free(monkeypatch, 4 * SIZE)
    ballast.keep(watch(tmp_path))
    for amount in (3 * SIZE, SIZE):
        free(monkeypatch, amount)
        assert ballast.keep(watch(tmp_path)) == SIZE
    free(monkeypatch, SIZE - 1)
    assert ballast.keep(watch(tmp_path)) == 0
    assert standing(tmp_path) == 0
    free(monkeypatch, 2 * SIZE)
    assert ballast.keep(watch(tmp_path)) == 0


def test_another_size_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 100 * SIZE)
    ballast.keep(watch(tmp_path))
    assert ballast.keep(watch(tmp_path, 2 * SIZE)) == 0
    assert ballast.keep(watch(tmp_path, 2 * SIZE)) == 2 * SIZE
    assert ballast.keep(watch(tmp_path, 0)) == 0
    assert ballast.keep(watch(tmp_path, 0)) == 0
    assert standing(tmp_path) == 0


def test_nothing_is_left_of_one_that_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    free(monkeypatch, 100 * SIZE)
    monkeypatch.setattr(os, "posix_fallocate", fails)
    with pytest.raises(OSError, match="no space"):
        ballast.keep(watch(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == [IDENTITY_FILE]


@pytest.mark.parametrize(
    ("probed", "left"),
    [
        pytest.param(Probed(at=1, seconds=0), SIZE, id="well"),
        pytest.param(Probed(at=1, seconds=0, errno=errno.ENOSPC), 0, id="full"),
        pytest.param(Probed(at=1, seconds=0, errno=errno.EIO), None, id="dead"),
        pytest.param(Probed(at=1, seconds=0, skipped=True), None, id="not-ours"),
        pytest.param(Probed(at=1, seconds=0, wrong=True), None, id="wrong"),
    ],
)
def test_only_what_was_just_seen_to_be_ours_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probed: Probed, left: int | None
) -> None:
    free(monkeypatch, 4 * SIZE)
    ballast.keep(watch(tmp_path))
    assert worker._with_ballast(watch(tmp_path), probed).ballast == left
    assert standing(tmp_path) == (SIZE if left is None else left)

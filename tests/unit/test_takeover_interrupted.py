"""The pod that lays out volumes is killed before each of its writes; then it is run again, or undone."""

from pathlib import Path
from typing import Any

import pytest

from spindle.takeover.volumes import VolumeOrder, VolumePlace
from spindle_agent import volume
from spindle_agent.preflight import takeover

ID = "3Db5QLSqSZieL3rJBUUegA"
META = f"version=1\ncluster.id={ID}\nnode.id=4\ndirectory.id=wBVR3XvTT5OFw4iBGZ2g1A\n"
CALLS = ((Path, "rename"), (Path, "unlink"), (volume, "write_durably"))


class Killed(BaseException):
    """The process ends here."""


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def order(root: Path, *, controller: bool, undo: bool = False) -> VolumeOrder:
    place = VolumePlace(str(root), "kafka-log4", 4, 9002 if controller else 4, controller)
    return VolumeOrder(ID, (place,), undo)


def killed(monkeypatch: pytest.MonkeyPatch, at: int, its: VolumeOrder) -> bool:
    """Carry it out, and end before write number ``at``; whether there was one."""
    writes = 0

    def wrapped(call: Any) -> Any:
        def inner(*args: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == at:
                raise Killed
            return call(*args)

        return inner

    with monkeypatch.context() as patched:
        for owner, name in CALLS:
            patched.setattr(owner, name, wrapped(getattr(owner, name)))
        try:
            takeover.carry_out(its)
        except Killed:
            return True
    return False


@pytest.mark.parametrize("controller", [True, False], ids=["controller", "broker"])
@pytest.mark.parametrize("at", range(1, 7))
def test_the_way_back_restores_all_wherever_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, controller: bool
) -> None:
    log = tmp_path / "kafka-log4"
    (log / "__cluster_metadata-0").mkdir(parents=True)
    (log / "meta.properties").write_text(META)
    for name in ("quorum-state", "0.log"):
        (log / "__cluster_metadata-0" / name).write_text(name)
    before = tree(tmp_path)
    there, back = (order(tmp_path, controller=controller, undo=undo) for undo in (False, True))

    killed(monkeypatch, at, there)
    takeover.carry_out(back)
    assert tree(tmp_path) == before

    takeover.carry_out(there)
    after = tree(tmp_path)
    killed(monkeypatch, at, back)
    takeover.carry_out(back)
    assert tree(tmp_path) == before

    for its in (there, back):
        killed(monkeypatch, at, its)
        takeover.carry_out(there)
        assert tree(tmp_path) == after

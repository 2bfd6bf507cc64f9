"""The demo's chapter about a disk that dies: what it does from which state of the disk."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.demo.dying_disk import DyingDisk
from e2e.demo.show import DemoError, Show

FAIL = "python -m e2e.cluster disk fail 4 disk0"
SWAP = "python -m e2e.cluster disk swap 4 disk0"


class Cluster(Show):
    """A cluster whose disk has these states one after the other; the last one stays."""

    def __init__(self, *states: str, retired: bool = False, settled: bool = True) -> None:
        super().__init__()
        self.states, self.retired, self.settled = list(states), retired, settled
        self.ran: list[str] = []
        self.beside_ran: list[str] = []

    def run(self, *command: str, silent: str = "") -> None:
        self.ran.append(" ".join(command))

    @contextmanager
    def beside(self, *command: str, until: str) -> Iterator[str]:
        self.beside_ran.append(" ".join(command))
        yield "http://127.0.0.1:1/?token=x"

    def ask(self, *command: str) -> str:
        assert command[:2] == ("kubectl", "get")
        return json.dumps(self.broker() if command[2] == "kafkabroker" else self.cluster())

    def broker(self) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        disks = [{"name": "disk0", "state": "Active"}, {"name": "disk1", "state": state, "message": "why"}]
        spec = {"disks": [{"name": "disk0", "pv": "node4-disk1"}, {"name": "disk1", "pv": "node4-disk0"}]}
        return {"spec": spec | ({"retired": ["x"]} if self.retired else {}), "status": {"disks": disks}}

    def cluster(self) -> dict[str, Any]:
        waiting = [] if self.settled else [{"message": "Moving 3 replicas."}]
        return {"status": {"conditions": [{"type": "Ready", "status": "True"}], "waiting": waiting}}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.demo.dying_disk.pause", lambda seconds: None)


def test_it_dies_and_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    show = Cluster(
        "Active", "Active", "Failed", "Evacuating", "Evacuated", "Evacuated", "Replacing", "Active"
    )

    DyingDisk(show, "demo").play()

    assert show.ran == [FAIL, SWAP]
    assert show.beside_ran == ["spindle ui demo"]
    shown = capsys.readouterr().out
    assert "http://127.0.0.1:1/?token=x" in shown
    assert "Evacuating: why" in shown
    assert shown.index("Failed: why") < shown.index("Evacuated: why") < shown.index("Replacing: why")


@pytest.mark.parametrize("state", ["Failed", "Evacuating", "Evacuated"])
def test_one_that_is_dead_is_replaced(state: str) -> None:
    show = Cluster(state, state, "Evacuated", "Evacuated", "Active", retired=True)

    DyingDisk(show, "demo").play()

    assert show.ran == [SWAP]


def test_one_that_was_replaced_is_waited_for() -> None:
    show = Cluster("Backfilling", "Backfilling", "Backfilling", "Active", retired=True)

    DyingDisk(show, "demo").play()

    assert show.ran == []


def test_it_does_not_die_again() -> None:
    show = Cluster("Active", retired=True)

    DyingDisk(show, "demo").play()

    assert show.ran == show.beside_ran == []


def test_what_is_left_to_do_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.demo.dying_disk._HEALED_S", -1)

    with pytest.raises(DemoError, match="disk1 of demo-broker-0 was not Active"):
        DyingDisk(Cluster("Backfilling", "Active", retired=True, settled=False), "demo").play()

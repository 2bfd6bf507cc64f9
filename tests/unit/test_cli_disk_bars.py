import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from rich.console import Console

from spindle.api import names
from spindle_cli import disk_bars, kafka_client
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, DirView
from spindle_cli.output import Output

GIB = 1 << 30
ACCESS = Access(Path("/none"), "demo:9092")


def log_dir(number: int, used: int, held: int = 0, replicas: int = 0) -> DirView:
    return DirView(names.log_dir(f"disk{number}"), True, GIB, GIB - used, replicas, held)


def lines(found: Mapping[int, Sequence[DirView] | str], racks: Mapping[int, str] | None = None) -> list[str]:
    return list(disk_bars.lines(racks if racks is not None else {0: "zone-a", 1: "zone-b"}, found, 8))


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, "········"),
        (0.0001, "▏·······"),  # what is not nothing is seen
        (0.5, "████····"),
        (0.55, "████▍···"),
        (0.999, "████████"),
        (1.0, "████████"),
        (1.7, "████████"),  # a file system that reports more used than it has
    ],
)
def test_a_bar_is_exact_to_an_eighth_of_a_character(share: float, drawn: str) -> None:
    assert disk_bars.bar(share, 8) == drawn


def test_a_broker_is_the_sum_of_its_disks() -> None:
    found = lines({0: [log_dir(0, GIB // 2, 400 << 20, 3), log_dir(1, 0)], 1: [log_dir(0, GIB, GIB, 7)]})

    assert found == [
        "broker 0  zone-a  ██······  25% of  2.0 GiB    3 replicas of 400 MiB",
        "  disk0           ████····  50% of  1.0 GiB    3 replicas of 400 MiB",
        "  disk1           ········   0% of  1.0 GiB    0 replicas of 0 B",
        "broker 1  zone-b  ████████ 100% of  1.0 GiB    7 replicas of 1.0 GiB",
        "  disk0           ████████ 100% of  1.0 GiB    7 replicas of 1.0 GiB",
    ]


def test_what_is_not_known_is_said() -> None:
    untold = DirView("/data/one", True, None, None, 2, 1 << 20)
    gone = DirView(names.log_dir("disk0"), False)
    found = lines({0: [untold], 1: [gone], 2: "it does not answer"}, {})

    assert found == [
        "broker 0     size unknown     2 replicas of 1.0 MiB",
        "  /data/one  size unknown     2 replicas of 1.0 MiB",
        "broker 1     offline ",
        "  disk0      offline ",
        "broker 2     it does not answer",
    ]


class Client:
    """A cluster of two brokers."""

    def __init__(self, told: Mapping[int, list[DirView] | str]) -> None:
        self.told = told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def racks(self) -> dict[int, str]:
        return dict.fromkeys(self.told, "")

    def dirs(self, broker: int) -> list[DirView]:
        found = self.told[broker]
        if isinstance(found, str):
            raise ClientError(found)
        return found


@pytest.mark.parametrize(
    ("told", "good"),
    [
        ([log_dir(0, 1)], True),
        ([DirView(names.log_dir("disk0"), False)], False),
        ("broker 1 does not answer", False),
    ],
)
def test_it_ends_well_only_if_everything_was_seen(
    monkeypatch: pytest.MonkeyPatch, told: list[DirView] | str, good: bool
) -> None:
    monkeypatch.setattr(disk_bars, "connect", lambda access: Client({0: [log_dir(0, 1)], 1: told}))
    shown = Console(file=io.StringIO(), width=40)

    assert disk_bars.show(ACCESS, 8, shown) is good
    assert isinstance(shown.file, io.StringIO)
    assert "broker 0" in shown.file.getvalue()
    assert "broker 1" in shown.file.getvalue()


def test_as_json_it_is_one_line_whatever_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, list[DirView] | str] = {0: [log_dir(0, 5, 4, 1)], 1: "broker 1 does not answer [yet]"}
    monkeypatch.setattr(disk_bars, "connect", lambda access: Client(told))
    shown = Console(file=io.StringIO(), width=40)

    disk_bars.show(ACCESS, 8, shown, Output.JSON)

    assert isinstance(shown.file, io.StringIO)
    (line,) = shown.file.getvalue().splitlines()
    one, other = json.loads(line)
    assert one["dirs"] == [
        {
            "path": names.log_dir("disk0"),
            "online": True,
            "capacity": GIB,
            "usable": GIB - 5,
            "replicas": 1,
            "bytes": 4,
        }
    ]
    assert other == {"broker": 1, "rack": "", "error": "broker 1 does not answer [yet]"}


def test_a_log_dir_as_kafka_tells_it() -> None:
    topics = [{"partitions": [{"partition_size": 5}, {"partition_size": 7}]}, {"partitions": []}]
    raw: dict[str, Any] = {"error_code": 0, "log_dir": "/d", "topics": topics}

    assert kafka_client._dir({**raw, "total_bytes": 100, "usable_bytes": 40}) == DirView(
        "/d", True, 100, 40, 2, 12
    )
    assert kafka_client._dir({**raw, "total_bytes": -1, "usable_bytes": -1}) == DirView(
        "/d", True, None, None, 2, 12
    )
    assert kafka_client._dir({**raw, "error_code": 56}) == DirView("/d", False)

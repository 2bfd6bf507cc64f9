"""What each open page is told."""

import json
from typing import Any

import pytest

from spindle_cli.disk_map.board import Board, Page
from tests import map_samples
from tests.unit import cli_samples


@pytest.fixture
def board() -> Board:
    made = Board("demo")
    made.replace("kafkaclusters", [cli_samples.ready()])
    made.replace("kafkabrokers", [cli_samples.broker(0), cli_samples.broker(1)])
    return made


def opened(board: Board) -> Page:
    return board.open(lambda: None)


def news(board: Board, page: Page) -> dict[str, Any]:
    text = board.news(page)
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def card_of(board: Board, number: int) -> dict[str, Any]:
    cards: list[dict[str, Any]] = news(board, opened(board))["cards"]
    return next(card for card in cards if card["id"] == number)


def test_a_new_page_gets_everything(board: Board) -> None:
    first = news(board, opened(board))

    assert first["full"]
    assert sorted(card["id"] for card in first["cards"]) == [0, 1]
    assert first["head"]["name"] == "demo"
    assert (first["moves"], first["proposals"], first["trouble"]) == ({"total": 0, "shown": []}, [], [])


def test_then_only_what_has_changed(board: Board) -> None:
    page = opened(board)
    news(board, page)
    assert board.news(page) is None

    board.change("kafkabrokers", cli_samples.broker(1, state="Stopped"), deleted=False)

    assert news(board, page) == {
        "full": False,
        "gone": [],
        "cards": [card_of(board, 1)],
    }


def test_a_change_that_the_map_does_not_show_is_no_news(board: Board) -> None:
    page = opened(board)
    news(board, page)
    raw = cli_samples.broker(1)
    raw["metadata"]["resourceVersion"] = "17"

    board.change("kafkabrokers", raw, deleted=False)

    assert board.news(page) is None


def test_a_page_is_woken_from_another_thread(board: Board) -> None:
    woken: list[bool] = []
    page = board.open(lambda: woken.append(True))
    news(board, page)

    board.change("kafkabrokers", cli_samples.broker(1, state="Stopped"), deleted=False)
    board.close(page)
    board.change("kafkabrokers", cli_samples.broker(1), deleted=False)

    assert woken == [True]


@pytest.mark.parametrize("by", ["deleted", "missing in a list"])
def test_a_broker_that_is_gone(board: Board, by: str) -> None:
    page = opened(board)
    news(board, page)

    if by == "deleted":
        board.change("kafkabrokers", cli_samples.broker(1), deleted=True)
    else:
        board.replace("kafkabrokers", [cli_samples.broker(0)])

    assert news(board, page)["gone"] == ["demo-broker-1"]


def test_brokers_of_other_clusters_are_not_shown(board: Board) -> None:
    page = opened(board)
    news(board, page)

    board.change("kafkabrokers", cli_samples.broker(1, of="other"), deleted=False)
    board.replace("kafkarebalances", [map_samples.proposal("other")])

    told = json.loads(board.news(page) or "{}")
    assert not told.get("cards")
    assert not told.get("proposals")


def test_nothing_is_shown_before_the_brokers_were_listed() -> None:
    board = Board("demo")
    page = opened(board)
    board.replace("kafkaclusters", [cli_samples.ready()])
    assert board.news(page) is None

    board.replace("kafkabrokers", [cli_samples.broker(0)])

    assert news(board, page)["full"]
    assert board.news(page) is None


def test_a_page_shows_why_nothing_can_be_read() -> None:
    board = Board("demo")
    page = opened(board)

    board.trouble("kafkabrokers", "forbidden")
    assert news(board, page)["trouble"] == ["forbidden"]
    board.replace("kafkaclusters", [cli_samples.ready()])
    board.replace("kafkabrokers", [cli_samples.broker(0)])
    board.trouble("kafkabrokers", None)

    found = news(board, page)
    assert (found["full"], found["trouble"], len(found["cards"])) == (True, [], 1)


def test_before_the_brokers_are_listed_trouble_is_told_once_and_says_nothing_of_the_cluster() -> None:
    board = Board("demo")
    page = opened(board)

    board.trouble("kafkarebalances", "forbidden")
    assert "head" not in news(board, page)
    board.replace("kafkarebalances", [])
    board.change("kafkabrokers", cli_samples.broker(0), deleted=False)

    assert board.news(page) is None


def test_an_object_that_cannot_be_read_does_not_hide_the_others(board: Board) -> None:
    page = opened(board)
    news(board, page)
    broken = cli_samples.broker(1)
    broken["spec"]["id"] = "one"

    board.replace("kafkabrokers", [cli_samples.broker(0, state="Stopped"), broken])
    told = news(board, page)
    assert "kafkabrokers demo-broker-1 cannot be read" in told["trouble"][0]
    assert [card["id"] for card in told["cards"]] == [0]
    assert told["gone"] == []
    board.replace("kafkabrokers", [cli_samples.broker(0), cli_samples.broker(1)])

    assert news(board, page)["trouble"] == []


def test_the_journal_is_readable_again(board: Board) -> None:
    page = opened(board)
    journal = map_samples.journal("demo", ago=120, copied=1)
    board.change("configmaps", {**journal, "data": {"journal": "{"}}, deleted=False)
    assert news(board, page)["trouble"]

    board.change("configmaps", journal, deleted=False)

    assert news(board, page)["trouble"] == []


def test_moves_of_the_journal_and_of_agents_are_one_list(board: Board) -> None:
    page = opened(board)
    board.replace("configmaps", [map_samples.journal("demo", ago=120, copied=1 << 30)])
    board.change("configmaps", map_samples.journal("demo", ago=60, copied=7 << 30), deleted=False)
    raw = cli_samples.broker(1)
    dirs = {"fromDir": "/var/lib/kafka/disks/disk0/log", "toDir": "/var/lib/kafka/disks/disk1/log"}
    raw["status"]["observed"] = {"moves": [{"topic": "b", "partition": 1, **dirs, "state": "Copying"}]}
    board.change("kafkabrokers", raw, deleted=False)

    moves = news(board, page)["moves"]

    assert moves["total"] == 5
    assert moves["shown"][0]["rate"] == pytest.approx((6 << 30) / 60, rel=0.1)
    assert {each["replica"] for each in moves["shown"]} == {"b-1", *(f"orders-{40 + n}" for n in range(4))}


def test_a_journal_that_cannot_be_read_is_told(board: Board) -> None:
    page = opened(board)
    raw = map_samples.journal("demo")
    raw["data"]["journal"] = "{"

    board.change("configmaps", raw, deleted=False)

    assert "journal" in news(board, page)["trouble"][0]

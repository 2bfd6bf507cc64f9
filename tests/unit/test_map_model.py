"""What the map shows of a cluster."""

from datetime import datetime
from typing import Any

import pytest

from spindle.api.broker import BrokerDiskStatus, KafkaBroker, ObservedDisk
from spindle.api.cluster import KafkaCluster
from spindle.api.rebalance import KafkaRebalance
from spindle.moves.copy_progress import CopyProgress
from spindle.moves.journal import Journal, Move
from spindle_cli.disk_map import model
from tests import map_samples
from tests.unit import cli_samples

GIB = 1 << 30


def disk(**fields: Any) -> BrokerDiskStatus:
    return BrokerDiskStatus.parse(
        {"name": "disk0", "state": "Active", "capacityBytes": 100 * GIB, "usedBytes": 63 * GIB, **fields}
    )


def observed(**fields: Any) -> ObservedDisk:
    return ObservedDisk.parse({"name": "disk0", "verdict": "Healthy", **fields})


def moving(target: int = 4, copied: int = 10, since: float = 100.0) -> Journal:
    move = Move(
        "orders",
        7,
        1,
        "/var/lib/kafka/disks/disk2/log",
        target,
        "/var/lib/kafka/disks/disk1/log",
        110,
        "evacuate",
    )
    return Journal(moves=(move,), pace=(CopyProgress("orders", 7, target, copied, since),))


def test_a_disk_in_use_is_a_level_and_nothing_else() -> None:
    assert model.disk_cell(disk(), observed()) == {
        "name": "disk0",
        "state": "Active",
        "percent": 63.0,
        "capacity": 100 * GIB,
    }


def test_a_disk_without_a_status_is_unknown_and_has_no_level() -> None:
    assert model.disk_cell(BrokerDiskStatus(name="disk3")) == {"name": "disk3", "state": "Unknown"}


def test_level_and_verdict_are_told_when_they_are_not_normal() -> None:
    cell = model.disk_cell(disk(usage={"level": "Move"}), observed(verdict="Suspect"))

    assert (cell["level"], cell["verdict"]) == ("Move", "Suspect")


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        pytest.param(GIB, 64.0, id="grows"),
        pytest.param(-GIB, 62.0, id="decreases"),
        pytest.param(1000 * GIB, 100.0, id="no-more-than-full"),
        pytest.param(-1000 * GIB, 0.0, id="no-less-than-empty"),
    ],
)
def test_the_mark_is_the_usage_in_a_week(growth: int, expected: float) -> None:
    weekly = growth / model.AHEAD.total_seconds()

    cell = model.disk_cell(disk(), observed(forecast={"bytesPerSecond": round(weekly)}))

    assert cell["expected"] == pytest.approx(expected, abs=0.1)
    assert "next" not in cell


def test_the_next_threshold_is_the_lowest_one_that_is_not_reached() -> None:
    times = {"moveAt": {"at": "2026-03-05T00:00:00Z"}, "cordonAt": {"at": "2026-03-06T00:00:00Z"}}

    cell = model.disk_cell(disk(), observed(forecast={"bytesPerSecond": 1, **times}))

    assert cell["next"] == {"level": "Move", "at": "2026-03-05T00:00:00Z"}


def test_a_card_has_a_cell_for_each_disk_of_the_spec() -> None:
    raw = cli_samples.broker(2, cli_samples.disk(2, "disk0"), cli_samples.disk(2, "disk1", state="Failed"))
    raw["spec"]["disks"].append({"name": "disk2", "claim": "data-disk2-demo-2", "directoryId": "A" * 22})

    card = model.broker_card(KafkaBroker.parse(raw))

    assert (card["id"], card["rack"], card["node"], card["state"]) == (2, "zone-c", "node3", "Running")
    assert [(each["name"], each["state"]) for each in card["disks"]] == [
        ("disk0", "Active"),
        ("disk1", "Failed"),
        ("disk2", "Unknown"),
    ]


def test_the_head_has_each_way_out_and_only_unhealthy_conditions() -> None:
    entry = map_samples.waiting(
        "RestartBroker", "demo-broker-1", "WouldBeUnderMinIsr", "orders-1", "broker 2 in sync"
    )
    raw = cli_samples.ready(
        waiting=[entry],
        conditions=[cli_samples.condition("Ready", "False"), cli_samples.condition("DataAtRisk", "False")],
    )

    head = model.cluster_head(KafkaCluster.parse(raw))

    assert [each["unblockedBy"] for each in head["waiting"]] == ["broker 2 in sync"]
    assert [each["type"] for each in head["conditions"]] == ["Ready"]


def test_the_head_of_a_new_cluster_says_that_it_was_not_observed() -> None:
    head = model.cluster_head(KafkaCluster.parse(cli_samples.cluster()))

    assert "not observed" in head["phase"]
    assert head["waiting"] == []


def test_moves_between_disks_that_are_done_are_not_shown() -> None:
    raw = cli_samples.broker(1)
    dirs = {"fromDir": "/var/lib/kafka/disks/disk0/log", "toDir": "/var/lib/kafka/disks/disk1/log"}
    raw["status"]["observed"] = {
        "moves": [
            {"topic": "a", "partition": 0, **dirs, "state": "Done"},
            {
                "topic": "b",
                "partition": 1,
                **dirs,
                "state": "Copying",
                "bytes": 100,
                "copied": 40,
                "bytesPerSecond": 6,
            },
        ]
    }

    (move,) = model.moves_within(KafkaBroker.parse(raw))

    assert (move["replica"], move["from"], move["to"]) == ("b-1", "1 disk0", "1 disk1")
    assert (move["copied"], move["rate"]) == (40, 6)


def test_a_copy_between_brokers_has_a_rate_as_soon_as_its_place_was_seen_twice() -> None:
    first, second = moving(copied=10, since=100.0), moving(copied=70, since=160.0)

    assert model.copy_rates({}, first, {}) == {}
    rates = model.copy_rates(model.places(first), second, {})
    assert rates == {("orders", 7, 4): 1}
    (move,) = model.moves_between(second, rates)
    assert (move["from"], move["to"], move["state"]) == ("1 disk2", "4 disk1", "Copying")
    assert datetime.fromisoformat(move["eta"]).timestamp() == 160 + 40


def test_a_rate_stays_until_the_next_place() -> None:
    journal = moving()

    assert model.copy_rates(model.places(journal), journal, {("orders", 7, 4): 5}) == {("orders", 7, 4): 5}


def test_a_copy_that_makes_no_progress_has_no_end() -> None:
    (move,) = model.moves_between(moving(), {("orders", 7, 4): 0})

    assert (move["rate"], move["eta"]) == (0, None)


def test_a_move_that_waits_has_no_place() -> None:
    (move,) = model.moves_between(moving().replacing(pace=()), {})

    assert (move["state"], move["copied"], move["eta"]) == ("Queued", None, None)


def test_a_proposal_is_shown_with_its_gain() -> None:
    shown = model.proposal(KafkaRebalance.parse(map_samples.proposal("demo")))

    assert [(each["what"], each["before"], each["after"]) for each in shown["gain"]] == [
        ("fullest disk", 86, 64),
        ("disks out of band", 17, 0),
    ]
    assert (shown["phase"], shown["moves"], shown["bytes"]) == ("Proposed", 24, 24 * 40 * GIB)


def test_of_the_proposals_that_ended_only_the_latest_are_shown() -> None:
    def one(number: int, *, over: bool) -> dict[str, Any]:
        return {"name": f"demo-{number}", "created": f"2026-03-0{number}T00:00:00Z", "over": over}

    found = [one(1, over=False), *(one(number, over=True) for number in range(2, 8)), one(8, over=False)]

    assert [each["name"] for each in model.shown_proposals(found)] == [
        "demo-8",
        "demo-1",
        "demo-7",
        "demo-6",
        "demo-5",
    ]

"""The throttle of moves between dirs: what agents want of it, and what becomes of what agents of earlier versions have set."""

from typing import Any

import pytest

from spindle.model.view import CORDONED, LOG_DIRS_RATE, Broker, KafkaView, LogDir
from spindle.moves import between_dirs
from spindle.moves.execute import cleanup
from spindle.moves.intents import ConfigureIntent
from spindle.moves.journal import Journal, SavedConfig
from spindle.moves.limits import Limits
from tests.model.moving import execute

KEY = ("broker", "1", LOG_DIRS_RATE)


def broker(most: int | None = 1000, *states: str, **throttle: Any) -> dict[int, dict[str, Any]]:
    moves = [{"topic": "t", "partition": n, "state": state} for n, state in enumerate(states)]
    spec = {} if most is None else {"throttleBytesPerSecond": most}
    return {1: {"spec": spec, "status": {"observed": {"moves": moves, "throttle": throttle}}}}


def view(value: str | None, **more: str) -> KafkaView:
    settings = more if value is None else {LOG_DIRS_RATE: value, **more}
    return KafkaView(
        brokers={1: Broker(1, "a", False, (LogDir("/d0"),))},
        partitions=(),
        settings={("broker", "1"): settings},
    )


@pytest.mark.parametrize(
    ("brokers", "rate"),
    [
        pytest.param(broker(1000, wantedBytesPerSecond=500), "500", id="as-wanted"),
        pytest.param(broker(1000, wantedBytesPerSecond=10**17), "1000", id="no-faster-than-the-spec"),
        pytest.param(broker(None, wantedBytesPerSecond=500), None, id="no-moves-in-the-spec"),
        pytest.param(broker(1000), None, id="nothing-wanted"),
        pytest.param(broker(1000, "Done", "Copying", ours=["9", "7"]), "7", id="earlier-agent-that-moves"),
        pytest.param(broker(1000, "Done", "Failed", ours=["9", "7"]), None, id="earlier-agent-that-is-done"),
        pytest.param(broker(1000, "Copying", ours=["${dir:/etc:key}"]), None, id="no-number"),
        pytest.param(broker(1000, "Copying", ours=["9" * 40]), None, id="more-than-kafka-takes"),
    ],
)
def test_a_broker_gets_what_its_agent_wants_within_what_its_spec_allows(
    brokers: dict[int, dict[str, Any]], rate: str | None
) -> None:
    assert between_dirs.rates(brokers) == ({} if rate is None else {KEY: rate})


def passes(value: str | None, journal: Journal, brokers: dict[int, dict[str, Any]]) -> tuple[Any, Journal]:
    """One pass: the value that stands in Kafka after it, and the journal."""
    journal = between_dirs.taken_over(journal, view(value), brokers.items())
    outcome = execute(view(value), journal, (), Limits(), settings=between_dirs.rates(brokers))
    for intent in outcome.actions:
        assert isinstance(intent, ConfigureIntent)
        value = dict(intent.values)[LOG_DIRS_RATE]
    return value, outcome.journal


def test_it_is_set_followed_and_put_back_and_noted_before() -> None:
    value, journal = passes(None, Journal(), broker(1000, wantedBytesPerSecond=500))
    assert (value, [(s.before, s.ours) for s in journal.settings]) == ("500", [(None, "500")])
    value, journal = passes(value, journal, broker(1000, wantedBytesPerSecond=250))
    assert value == "250"
    value, journal = passes(value, journal, broker(1000))
    assert value is None
    assert passes(value, journal, broker(1000)) == (None, Journal())


def test_what_a_user_has_set_is_left_alone() -> None:
    assert passes("77", Journal(), broker(1000, wantedBytesPerSecond=500)) == ("77", Journal())
    value, journal = passes(None, Journal(), broker(1000, wantedBytesPerSecond=500))
    assert passes("77", journal, broker(1000, wantedBytesPerSecond=250)) == ("77", Journal())
    assert value == "500"


@pytest.mark.parametrize("before", [None, "7"])
def test_what_an_earlier_agent_has_set_is_taken_over_and_put_back(before: str | None) -> None:
    left = {"ours": ["1000", "500"]} | ({} if before is None else {"before": before})
    moving = broker(1000, "Copying", wantedBytesPerSecond=300, **left)
    value, journal = passes("500", Journal(), moving)
    assert (value, [(s.before, s.ours) for s in journal.settings]) == ("300", [(before, "300")])
    value, journal = passes(value, journal, broker(1000))
    assert value == before
    value, journal = passes(value, journal, broker(1000, **left))
    assert (value, journal) == (before, Journal()), "a record that stays behind is taken over once"


def test_an_earlier_agent_that_is_done_and_may_set_nothing_has_its_throttle_put_back() -> None:
    value, journal = passes("500", Journal(), broker(1000, "Done", ours=["500"]))
    assert value is None
    assert passes(value, journal, broker(1000, "Done", ours=["500"])) == (None, Journal())


def test_what_it_has_set_is_put_back_before_the_cluster_goes() -> None:
    journal = between_dirs.taken_over(Journal(), view("500"), broker(None, ours=["500"]).items())
    (intent,) = cleanup(view("500"), journal).actions
    assert intent == ConfigureIntent(kind="broker", name="1", values={LOG_DIRS_RATE: None})


def test_a_value_that_its_broker_does_not_tell_is_waited_for() -> None:
    hidden = view(None, **{CORDONED: "/gone"})
    brokers = broker(1000, ours=["500"])
    assert between_dirs.taken_over(Journal(), hidden, brokers.items()) == Journal()
    noted = Journal(settings=(SavedConfig("broker", "1", LOG_DIRS_RATE, before=None, ours="500", was=None),))
    assert execute(hidden, noted, (), Limits()).journal == noted

"""Every action is carried out by one of the two tables, and described in a log line."""

import inspect
import time
from typing import Any

import pytest

from spindle.model import actions
from spindle.model.actions import Action, SetConfigs, Tune
from spindle.model.freshness import FactsRead
from spindle_operator import kafka_actions, kafka_commands
from spindle_operator.act import Actor
from spindle_operator.kafka_actions import KAFKA_ACTIONS
from tests.unit.operator_fakes import FakeKube, cluster
from tests.unit.test_operator_act import Gate

ALL = [
    kind
    for _, kind in inspect.getmembers(actions, inspect.isclass)
    if issubclass(kind, Action) and kind is not Action
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: str(kind.__name__))
def test_each_action_has_one_place_where_it_is_carried_out(kind: type[Action]) -> None:
    steps = Actor(
        FakeKube(), cluster(), Gate(), lambda: True, look=FactsRead(listed=True, at=time.monotonic())
    )._steps
    # A reassignment leaves out what a broker has not placed, then goes to Kafka; the other two also record what they do.
    own = kind in steps and kind not in (actions.Reassign, actions.CreateTopic, actions.ReloadCertificates)
    assert own is not (kind in KAFKA_ACTIONS)


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        (SetConfigs(target="topic", name="t", values={"a": "1"}), ("set_configs", "topic", "t", {"a": "1"})),
        (SetConfigs(target="quota", name="users", values={"b": None}), ("set_quota", {"b": None})),
        (Tune(broker=2, values={"c": "3"}), ("set_configs", "broker", "2", {"c": "3"})),
        (Tune(broker=None, values={"c": "3"}), ("set_configs", "broker", "", {"c": "3"})),
    ],
)
def test_settings_go_to_what_they_are_of(
    monkeypatch: pytest.MonkeyPatch, action: Action, asked: tuple[Any, ...]
) -> None:
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(kafka_commands, "set_configs", lambda _, *what: told.append(("set_configs", *what)))
    monkeypatch.setattr(kafka_commands, "set_quota", lambda _, *what: told.append(("set_quota", *what)))
    link: Any = None
    kafka_actions.run(link, action)
    assert told == [asked]

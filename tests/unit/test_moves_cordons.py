"""A cordon whose dir leaves its broker: it stands until Kafka is stopped, and is taken from the broker that comes up without the dir.

Such a broker takes none of the settings that were set on it, and no change to them, until its cordon names only dirs that it has.
"""

from dataclasses import replace

import pytest

from spindle.model.view import CORDONED, LEADER_RATE, KafkaView
from spindle.moves.intents import ConfigureIntent
from spindle.moves.journal import Journal, SavedConfig, SettingKey, parse, render
from spindle.moves.limits import Limits
from spindle.moves.settings import gone_dirs
from tests.model.moving import Dir, Kafka, Node, execute

D0, D1 = "/d0/log", "/d1/log"
KEY: SettingKey = ("broker", "1", CORDONED)
BOTH, ONE, OTHER = {KEY: f"{D0},{D1}"}, {KEY: D1}, {KEY: D0}
Wanted = dict[SettingKey, str]


class Brokers(Kafka):
    """Two brokers with two dirs each; orders are for broker 1."""

    def __init__(self) -> None:
        super().__init__({b: Node("ab"[b], {D0: Dir(1000), D1: Dir(1000)}) for b in range(2)}, {}, 1, 0.9)

    @property
    def own(self) -> dict[str, str]:
        return self.settings["broker", "1"]

    def tell(self, *orders: object) -> None:
        for order in orders:
            assert isinstance(order, ConfigureIntent)
            made = {k: v for k, v in {**self.own, **order.values}.items() if v is not None}
            cordon = set(filter(None, made.get(CORDONED, "").split(",")))
            assert cordon <= self.nodes[1].dirs.keys(), f"turned down: {order}"
            self.settings["broker", "1"] = made

    def view(self) -> KafkaView:
        """An empty value is told as none, as `read_settings` has it."""
        view = super().view()
        told = {key: {k: v for k, v in values.items() if v} for key, values in (view.settings or {}).items()}
        view = replace(view, settings=told)
        if gone_dirs(view, "1"):
            told["broker", "1"].pop(LEADER_RATE, None)  # it tells no throttle
        return view

    def restart_without(self, path: str) -> None:
        del self.nodes[1].dirs[path]


def look(k: Brokers, journal: Journal, wanted: Wanted, *, lost: bool = False) -> Journal:
    """One pass, as `emptying` asks for cordons; ``lost``: the operator is killed after the journal is written."""
    view = k.view()
    asked = {KEY: ""} | wanted if gone_dirs(view, "1") else wanted
    outcome = execute(view, journal, (), Limits(), settings=asked)
    if not lost:
        k.tell(*outcome.actions)
    return parse(render(outcome.journal))


def stands(k: Brokers, wanted: Wanted) -> Journal:
    journal = look(k, Journal(), wanted)
    assert k.own == {CORDONED: wanted[KEY]}
    return look(k, journal, wanted)


def is_over(k: Brokers, journal: Journal, left: dict[str, str]) -> None:
    for _ in range(4):
        journal = look(k, journal, {})
    assert k.own == left
    assert not journal


def test_the_last_cordon_goes_with_its_dir() -> None:
    k = Brokers()
    journal = stands(k, ONE)
    k.restart_without(D1)

    journal = look(k, journal, {})

    assert not k.own.get(CORDONED)
    is_over(k, journal, {})


def test_of_two_dirs_the_one_that_stays_is_cordoned_on() -> None:
    k = Brokers()
    journal = stands(k, BOTH)
    k.restart_without(D1)

    journal = look(k, journal, OTHER)

    assert k.own == {CORDONED: D0}
    is_over(k, look(k, journal, OTHER), {})


@pytest.mark.parametrize("killed", range(4))
def test_an_operator_that_is_killed_between_record_and_order_leaves_no_cordon(killed: int) -> None:
    k = Brokers()
    journal = stands(k, ONE)
    k.restart_without(D1)

    for number in range(4):
        journal = look(k, journal, {}, lost=number == killed)

    is_over(k, journal, {})


def test_nothing_is_lifted_while_the_broker_is_down() -> None:
    k = Brokers()
    journal = stands(k, ONE)
    k.stop(1)

    journal = look(k, look(k, journal, {}), {})

    assert k.own == {CORDONED: D1}
    assert [entry.id for entry in journal.settings] == [KEY]


@pytest.mark.parametrize("killed", range(5))
def test_a_throttle_on_such_a_broker_is_put_back_after_the_cordon(killed: int) -> None:
    k = Brokers()
    rate = SavedConfig("broker", "1", LEADER_RATE, before=None, ours="100")
    journal = Journal(settings=(*stands(k, ONE).settings, rate))
    k.own[LEADER_RATE] = "100"
    k.restart_without(D1)

    for number in range(5):
        journal = look(k, journal, {}, lost=number == killed)

    is_over(k, journal, {})


def test_with_the_journal_gone_no_cordon_is_left() -> None:
    k = Brokers()
    stands(k, ONE)
    k.restart_without(D1)

    is_over(k, Journal(), {})


def test_somebody_elses_cordon_of_a_dir_that_leaves_goes_with_it() -> None:
    k = Brokers()
    k.own[CORDONED] = f"{D0},{D1}"
    journal = look(k, Journal(), ONE)
    k.restart_without(D1)

    is_over(k, journal, {CORDONED: D0})


def test_somebody_elses_cordon_stays_when_ours_goes() -> None:
    k = Brokers()
    k.own[CORDONED] = D0
    journal = look(k, Journal(), ONE)
    assert k.own == {CORDONED: f"{D0},{D1}"}
    k.restart_without(D1)

    is_over(k, journal, {CORDONED: D0})


def test_a_dir_that_does_not_answer_is_not_gone() -> None:
    k = Brokers()
    k.own[CORDONED] = f"{D1},*"
    view = k.view()
    unasked = {**(view.brokers or {}), 1: replace((view.brokers or {})[1], log_dirs=None)}

    assert not gone_dirs(view, "1")
    assert not gone_dirs(replace(view, brokers=unasked), "1")
    k.restart_without(D1)
    assert gone_dirs(k.view(), "1") == {D1}

"""A leader's log that a copy from another dir has replaced: it may lack the leader's epoch (KAFKA-20961)."""

from dataclasses import replace

import pytest

from spindle.model.view import KafkaView
from spindle.moves.intents import ElectIntent
from spindle.moves.journal import Journal, Move, ReplacedLog, parse, render
from spindle.moves.journal_record import logs_to_ask
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.leader_epochs import check_epochs
from spindle.moves.outcome import StepResult
from spindle.moves.signals import MoveSignals
from tests.model.moving import Kafka, execute
from tests.unit.test_moves_execute import D0, D1, LIMITS, WITHIN, T, kafka, step

OF_FOLLOWER = Move("t", 0, 1, D0, 1, D1, 100, "backfill")
LATER = MoveSignals(now=60.0)
ENTRY = ReplacedLog("t", 0, 0, 3600.0)


def landed(k: Kafka, move: Move = WITHIN) -> StepResult:
    """The step that sees the move landed."""
    outcome = step(k, Journal(), move)
    for _ in range(3):
        k.tick(1, dict(outcome.agent_moves))
    return step(k, outcome.journal)


def leaders(k: Kafka, outcome: StepResult, steps: int = 6) -> list[int | None]:
    """Who leads after each further step."""
    found = []
    for _ in range(steps):
        outcome = step(k, outcome.journal)
        found.append(k.parts[T].leader)
    assert rests(k, outcome)
    return found


def rests(k: Kafka, outcome: StepResult) -> bool:
    """Whether nothing is left to do after a minute."""
    return step(k, outcome.journal, signals=LATER).journal == Journal()


def test_another_replica_leads_for_a_moment_so_that_the_log_gets_an_epoch() -> None:
    k = kafka()
    outcome = landed(k)
    assert T in k.epochless or k.parts[T].leader == 1
    assert [i.partitions for i in outcome.actions if isinstance(i, ElectIntent)] == [(T,)]
    assert k.parts[T].leader == 1
    assert set(leaders(k, outcome)) == {0}
    assert not k.epochless
    assert k.parts[T].replicas == [0, 1, 2]


def test_a_leader_that_has_its_epoch_goes_on() -> None:
    k = kafka()
    outcome = step(k, Journal(), WITHIN)
    for _ in range(3):
        k.tick(1, dict(outcome.agent_moves))
    k.epochless.clear()  # a record was written
    outcome = step(k, outcome.journal)
    assert outcome.journal == Journal(replaced=(ENTRY,))
    assert rests(k, outcome)
    assert not [i for i in outcome.actions if isinstance(i, ElectIntent)]


def test_the_log_of_a_follower_needs_nothing() -> None:
    k = kafka()
    outcome = landed(k, OF_FOLLOWER)
    assert rests(k, outcome)
    assert not [i for i in outcome.actions if isinstance(i, ElectIntent)]


def test_a_leader_that_was_not_asked_yet_is_asked_for_an_hour() -> None:
    k = kafka()
    look = KafkaIndex(replace(k.view(), own_epochs=None))
    found = check_epochs(look, [], [WITHIN], frozenset(), 0.0)
    assert (found.standing, found.leads) == ((ENTRY,), {})
    assert check_epochs(look, [ENTRY], [], frozenset(), 3599.0).standing == (ENTRY,)
    assert check_epochs(look, [ENTRY], [], frozenset(), 3600.0).standing == ()


def test_a_copy_of_a_follower_that_ends_later_does_not_replace_the_leaders_entry() -> None:
    """The leader could not be asked in between: the partition moved again at once, on another broker."""
    k = kafka()
    k.epochless.add(T)
    later = ReplacedLog("t", 0, 1, 3610.0)
    found = check_epochs(KafkaIndex(k.view()), [ENTRY], [OF_FOLLOWER], frozenset(), 10.0)
    assert (found.standing, found.leads) == ((ENTRY, later), {T: 1})
    k.epochless.clear()
    assert check_epochs(KafkaIndex(k.view()), [ENTRY, later], [], frozenset(), 70.0).standing == ()


def test_a_partition_that_moves_on_one_broker_after_the_other_ends_with_an_epoch() -> None:
    k = kafka()

    def not_asked(outcome: StepResult, *moves: Move) -> StepResult:
        """A step before which the leader was not asked, as the journal did not have its entry yet."""
        made = execute(replace(k.view(), own_epochs={}), outcome.journal, moves, LIMITS)
        for intent in made.actions:
            k.carry_out(intent)
        return made

    outcome = step(k, Journal(), WITHIN)
    for _ in range(3):
        k.tick(1, dict(outcome.agent_moves))
    outcome = not_asked(outcome, OF_FOLLOWER)
    assert (T in k.epochless, outcome.journal.moves) == (True, (OF_FOLLOWER,))
    for _ in range(6):
        k.tick(1, dict(outcome.agent_moves))
        outcome = step(k, outcome.journal)
    assert not k.epochless
    assert k.parts[T].leader == 0
    assert rests(k, outcome)


@pytest.mark.parametrize(("down", "isr", "to"), [((), [0, 1, 2], 1), ((1,), [0, 1, 2], 2), ((), [0, 2], 2)])
def test_who_leads_is_in_sync_and_stays_up(down: tuple[int, ...], isr: list[int], to: int) -> None:
    k = kafka()
    k.epochless.add(T)
    k.parts[T].isr = isr
    found = check_epochs(KafkaIndex(k.view()), [ENTRY], [], frozenset(down), 0.0)
    assert found.leads == {T: to}


def test_without_another_replica_in_sync_it_waits_for_one() -> None:
    k = kafka()
    k.epochless.add(T)
    k.parts[T].isr = [0]
    found = check_epochs(KafkaIndex(k.view()), [ENTRY], [], frozenset(), 9999.0)
    assert (found.standing, found.leads) == ((ENTRY,), {})


def test_it_is_forgotten_when_another_broker_leads_or_the_topic_is_gone() -> None:
    k = kafka()
    k.epochless.add(T)
    k.parts[T].leader = 2
    assert check_epochs(KafkaIndex(k.view()), [ENTRY], [], frozenset(), 59.0).standing == (ENTRY,)
    assert check_epochs(KafkaIndex(k.view()), [ENTRY], [], frozenset(), 60.0).standing == ()
    gone = KafkaIndex(replace(k.view(), partitions=()))
    assert check_epochs(gone, [ENTRY], [], frozenset(), 0.0).standing == ()


def test_leaders_that_other_reasons_ask_for_come_first() -> None:
    k = kafka()
    k.epochless.add(T)
    step(k, Journal(replaced=(ENTRY,)), leads={T: 2})
    assert k.parts[T].leader == 2


def test_it_survives_in_the_journal_and_is_asked_for_from_there() -> None:
    journal = Journal(replaced=(ENTRY,))
    assert parse(render(journal)) == journal
    record = {"metadata": {"name": "demo-moves"}, "data": {"journal": render(journal)}}
    assert logs_to_ask("demo", [record]) == (ENTRY,)
    assert logs_to_ask("other", [record]) == ()
    for text in ("", render(Journal()), '{"replaced": 1}'):
        assert logs_to_ask("demo", [{**record, "data": {"journal": text}}]) == ()


def test_nothing_is_known_without_a_view() -> None:
    assert KafkaView(error="no").own_epochs is None

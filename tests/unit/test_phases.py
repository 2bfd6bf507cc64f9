"""The order of a pass's phases is the one that their parameters and results ask for."""

import inspect
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.reconcile.phase import PassResults, Phase, PhaseOrderError
from spindle.reconcile.phases import PHASES, REPORT_PHASES, USER_PHASES

ALL = (*PHASES, *USER_PHASES, *REPORT_PHASES)
GIVEN = {"state": ClusterState, "builder": PlanBuilder}


def provided() -> Iterator[tuple[Phase, str, Any]]:
    """Each result with the type that its phase returns; what a pass cannot go on without is never None afterwards."""
    for phase in ALL:
        returned = get_type_hints(phase.run).get("return")
        if isinstance(phase.provides, tuple):
            yield from (
                (phase, name, kind) for name, kind in zip(phase.provides, get_args(returned), strict=False)
            )
        elif phase.required:
            yield phase, phase.provides, next(kind for kind in get_args(returned) if kind is not type(None))
        else:
            yield phase, phase.provides, returned


def fits(given: Any, asked: Any) -> bool:
    """Whether a result of one type may be passed as a parameter of the other."""
    parts = set(get_args(asked)) if get_origin(asked) is UnionType else {asked}
    if set(get_args(given)) <= parts and type(None) in get_args(given):
        return True
    if given in parts or asked is given:
        return True
    bare = get_origin(given) or given
    return any(
        inspect.isclass(wanted := get_origin(part) or part)
        and inspect.isclass(bare)
        and issubclass(bare, wanted)
        for part in parts
    )


def test_each_result_is_provided_once_and_before_it_is_read() -> None:
    known = set(GIVEN)
    for phase in ALL:
        assert set(phase.reads) <= known, f"{phase.run.__name__} reads {set(phase.reads) - known} too early"
        assert not known & set(phase.results), f"{phase.run.__name__} provides {phase.results} again"
        known |= set(phase.results)


def test_each_result_is_read_by_a_later_phase_or_by_the_plan() -> None:
    read = {name for phase in ALL for name in phase.reads}
    unread = {name for phase in ALL for name in phase.results} - read
    assert unread == {"spec_checked", "users", "former_users"}


def test_each_result_has_the_type_that_its_readers_ask_for() -> None:
    kinds = GIVEN | {name: kind for _, name, kind in provided()}
    for phase in ALL:
        asked = get_type_hints(phase.run)
        for name in phase.reads:
            assert fits(kinds[name], asked[name]), (
                f"{phase.run.__name__} takes {name} as {asked[name]}, not {kinds[name]}"
            )


def test_nothing_is_added_to_a_collection_that_is_closed() -> None:
    """Restarts are added where the parameter is a dict, and only read where it is a Mapping; records are read only to write them."""
    closed: set[str] = set()
    for phase in ALL:
        hints = get_type_hints(phase.run)
        late = [name for name in closed & set(phase.reads) if get_origin(hints[name]) is not Mapping]
        assert not late, f"{phase.run.__name__} may add to {late}, which is closed"
        closed |= {phase.closes} - {""}
    assert closed == {"records", "wanted"}


def test_requests_to_kafka_come_last() -> None:
    """One that Kafka rejects ends the pass."""
    names = [phase.run.__name__ for phase in PHASES]
    assert names[-4:] == ["request_elections", "request_moves", "request_deletions", "hold_unrecorded"]


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        pytest.param((Phase(lambda late: late),), "late, which is not known yet", id="read too early"),
        pytest.param(
            (Phase(lambda: 1, "one"), Phase(lambda: 2, "one")), "one is set a second time", id="set twice"
        ),
    ],
)
def test_a_wrong_order_is_an_error(phases: tuple[Phase, ...], why: str) -> None:
    results = PassResults()
    with pytest.raises(PhaseOrderError, match=why):
        results.run(phases)


def test_a_pass_ends_without_its_required_result() -> None:
    ran: list[str] = []
    results = PassResults()
    results.run((Phase(lambda: None, "needed", required=True), Phase(lambda: ran.append("later"))))
    assert not ran
    assert not results.complete

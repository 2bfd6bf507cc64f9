"""A disk that is being filled or relieved gets no second plan while the first one is under way, however far it has come."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.evacuation.after_moves import after_moves
from spindle.evacuation.backfill import plan_backfill
from spindle.model.view import KafkaView
from spindle.moves.journal import Move
from spindle.thresholds.offload import plan_offload
from tests.unit.test_thresholds_offload import path, rooms, view_of

NEW = [(0, path(1))]
FULL = [(0, path(0))]


@st.composite
def layouts(draw: st.DrawFn) -> dict[int, list[dict[str, int]]]:
    """Three brokers with a copy of everything, one of them with a disk that nothing stands on yet."""
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=15))
    logs = {f"t-{n}": size for n, size in enumerate(sizes)}
    return {0: [dict(logs), {}], 1: [dict(logs)], 2: [dict(logs)]}


def on_the_way(view: KafkaView, move: Move, share: float) -> KafkaView:
    """A copy within a broker that has come so far; nothing of it is seen while the agent has it waiting."""
    if not share:
        return view
    assert view.brokers is not None
    broker = view.brokers[move.target]
    dirs = tuple(
        replace(d, futures={**d.futures, move.key: int(share * move.bytes)}) if d.path == move.to_dir else d
        for d in broker.log_dirs or ()
    )
    return replace(view, brokers={**view.brokers, move.target: replace(broker, log_dirs=dirs)})


def partly(data: st.DataObject, view: KafkaView, moves: tuple[Move, ...]) -> KafkaView:
    """Each move as far as chance has it: waiting, half copied, copied, or landed."""
    for move in moves:
        share = data.draw(st.sampled_from([0.0, 0.5, 1.0, None]))
        view = after_moves(view, [move]) if share is None else on_the_way(view, move, share)
    return view


@settings(max_examples=8)  # a plan of so small a cluster is thought over for a second
@given(layouts(), st.data())
def test_a_new_disk_is_filled_once(layout: dict[int, list[dict[str, int]]], data: st.DataObject) -> None:
    moves = plan_backfill(view_of(layout), NEW)
    assert moves is not None
    assert all(move.within for move in moves)
    view = partly(data, view_of(layout), moves)
    assert plan_backfill(view, NEW, moves) == ()


@settings(max_examples=8)  # a plan of so small a cluster is thought over for a second
@given(layouts(), st.integers(300, 749), st.data())
def test_a_full_disk_is_relieved_once(
    layout: dict[int, list[dict[str, int]]], room: int, data: st.DataObject
) -> None:
    allowed = rooms(layout) | dict.fromkeys(FULL, room)
    found = plan_offload(view_of(layout), FULL, allowed, agents=(0, 1, 2))
    view = partly(data, view_of(layout), found.moves)
    assert plan_offload(view, FULL, allowed, found.moves, agents=(0, 1, 2)).moves == ()

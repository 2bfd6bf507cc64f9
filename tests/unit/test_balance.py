import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spindle.api import names
from spindle.api.rebalance import MAX_MOVES, Lead, ProposedMove
from spindle.balance import propose as proposing
from spindle.balance.history import DiskOutlook, ReplicaHistory, rounded, with_history
from spindle.balance.picture import BrokerFact, Picture, RecordError, is_open
from spindle.balance.propose import BALANCED, NO_PLAN, PROPOSED, UNDER_WAY, Result, propose
from spindle.balance.reading import read
from spindle.planner.snapshot import DirState
from tests.unit.balance_samples import DISK, GB, picture, skewed

D0, D1 = names.log_dir("disk0"), names.log_dir("disk1")


def made(look: Picture, history: ReplicaHistory | None = None) -> Result:
    history = history or ReplicaHistory()
    return propose(look, read(look, history.slow), history)


def history_of(look: Picture, growth: float, **more: object) -> ReplicaHistory:
    rows = [
        (topic, index, b)
        for b, broker in (look.kafka.brokers or {}).items()
        for d in broker.log_dirs or ()
        for topic, index in d.replicas
    ]
    topics, partitions, brokers = zip(*rows, strict=True)
    n = len(rows)
    return ReplicaHistory(topics, partitions, brokers, [growth] * n, [growth] * n, **more)  # type: ignore[arg-type]


def test_a_skewed_cluster_gets_a_proposal_that_says_what_it_is_good_for() -> None:
    result = made(skewed())
    assert result.reason == PROPOSED
    assert result.proposal is not None
    spec = result.proposal.spec
    assert {(m.from_dir, m.to_dir, m.from_broker == m.to_broker) for m in spec.moves} == {(D0, D1, True)}
    assert len(spec.moves) == 15  # no more than bring each disk into its band; that costs no network
    assert spec.cost.bytes_inter == 0
    assert spec.cost.bytes_intra == 15 * 6 * GB
    assert (spec.gain.fullest_percent_before, spec.gain.fullest_percent_after) == (72, 42)
    assert spec.gain.disks_out_of_band_after == 0
    assert spec.moves[0].reason.startswith("over band: ")
    assert [m.wave for m in spec.moves] == sorted(m.wave or 0 for m in spec.moves)
    # Three waves, for a partition's replicas move one after the other.
    assert spec.estimated_minutes == 3 * (5 * 6 * GB // 50_000_000) // 60
    assert spec.expires == "2025-10-10T08:53:20Z"  # a day after the look
    assert result.proposal.name == f"demo-{spec.input_hash[:10]}"


def test_the_same_record_gives_the_same_proposal() -> None:
    look = skewed()
    again = Picture.from_document(json.loads(json.dumps(look.to_document(), sort_keys=True)))
    one, other = (made(x, history_of(x, 1000.0)).proposal for x in (look, again))
    assert one is not None
    assert other is not None
    assert one.name == other.name
    assert one.spec == other.spec


def test_rates_that_differ_in_their_last_digits_give_the_same_hash() -> None:
    look = skewed()
    one = made(look, history_of(look, 1234.5678)).proposal
    other = made(look, history_of(look, np.nextafter(1234.5678, 2000))).proposal
    assert one is not None
    assert other is not None
    assert one.spec == other.spec


def test_other_goals_budgets_and_sizes_give_other_hashes() -> None:
    looks = [
        skewed(),
        skewed(rebalance={"maxBytes": "100G"}),
        skewed(other_files=GB),
        replace(skewed(), cluster="other"),
    ]
    proposals = [made(look).proposal for look in looks]
    assert len({p.spec.input_hash for p in proposals if p is not None}) == len(looks)


def test_a_budget_cuts_the_plan() -> None:
    result = made(skewed(rebalance={"maxBytes": "20G"}))
    assert result.proposal is not None
    assert sum(m.bytes for m in result.proposal.spec.moves) == 18 * GB
    assert any("budget" in text for text in result.proposal.plan.unreached)


def test_a_balanced_cluster_gets_none() -> None:
    logs = {(b, d): [(f"t{d}", index, 6 * GB) for index in range(6)] for b in range(3) for d in range(2)}
    look = picture(logs)
    leaders = [
        replace(p, replicas=(p.index % 3, (p.index + 1) % 3, (p.index + 2) % 3))
        for p in look.kafka.partitions or ()
    ]
    result = made(replace(look, kafka=replace(look.kafka, partitions=tuple(leaders))))
    assert result.reason == BALANCED
    assert result.proposal is None


def test_nothing_is_proposed_while_a_proposal_is_carried_out() -> None:
    result = made(skewed(under_way="demo-abc"))
    assert result.reason == UNDER_WAY
    assert "demo-abc" in result.message


@pytest.mark.parametrize(
    ("phase", "approved", "expected"),
    [
        (None, None, False),
        ("Proposed", None, False),
        ("Proposed", "abc", True),
        ("Approved", "abc", True),
        ("Executing", "abc", True),
        ("Done", "abc", False),
        ("Stopped", "abc", False),
        ("Expired", None, False),
    ],
)
def test_open_proposals(phase: str | None, approved: str | None, expected: bool) -> None:
    assert is_open(phase, approved) is expected


def test_a_broker_that_does_not_answer_keeps_everything_and_shifts_nothing() -> None:
    # Broker 3 has nothing in common with the others.
    logs = {(b, 0): [("orders", index, 6 * GB) for index in range(12)] for b in range(3)}
    look = picture({**logs, (3, 0): [("alone", 0, 50 * GB)]}, brokers=4, silent=[3])
    reading = read(look)
    assert reading.silent == (3,)
    assert any("broker 3 did not answer" in note for note in reading.notes)
    result = propose(look, reading, ReplicaHistory())
    assert result.proposal is not None
    moved = {(m.from_broker, m.to_broker) for m in result.proposal.spec.moves}
    assert not {3} & {b for pair in moved for b in pair}
    assert result.proposal.spec.gain.fullest_percent_after == 42


def test_partitions_with_a_replica_on_a_silent_broker_stay() -> None:
    result = made(skewed(silent=[2]))
    assert result.proposal is None
    assert result.reason == NO_PLAN


def test_no_answer_at_all_is_a_refusal() -> None:
    result = made(skewed(silent=[0, 1, 2]))
    assert result.reason == NO_PLAN
    assert "no broker reported" in result.message
    look = skewed()
    assert made(replace(look, kafka=replace(look.kafka, partitions=None))).reason == NO_PLAN


@pytest.mark.parametrize("state", ["Failed", "Evacuating"])
def test_bad_disks_are_left_to_the_operator(state: str) -> None:
    look = skewed(disks={(0, 1): {"state": state}})
    snapshot = read(look).snapshot
    assert snapshot is not None
    d = snapshot.dir_name.index(D1)
    assert snapshot.dir_state[d] == DirState.OFFLINE
    result = made(look)
    assert result.proposal is not None
    moves = result.proposal.spec.moves
    assert moves
    assert not [m for m in moves if m.to_broker == 0 and m.to_dir == D1]
    assert not [m for m in moves if m.from_broker == m.to_broker == 0]  # rule 6


def test_what_stands_on_a_bad_or_draining_disk_is_not_proposed_to_move() -> None:
    for state in ("Failed", "Draining"):
        look = skewed(disks={(0, 0): {"state": state}})
        result = made(look)
        assert result.proposal is None or not result.proposal.spec.moves, state


@pytest.mark.parametrize(
    "fact",
    [
        {"state": "Cordoned"},
        {"cordoned": True},
        {"level": "Cordon"},
        {"slow": True},
        {"state": "Backfilling"},
    ],
)
def test_closed_disks_take_nothing(fact: dict[str, object]) -> None:
    result = made(skewed(disks={(b, 1): fact for b in range(3)}))
    assert result.proposal is None or not result.proposal.spec.moves
    one = made(skewed(disks={(0, 1): fact})).proposal
    assert one is not None
    assert not [m for m in one.spec.moves if (m.to_broker, m.to_dir) == (0, D1)]


def test_disks_that_the_history_calls_slow_take_nothing() -> None:
    look = skewed()
    result = made(look, ReplicaHistory(slow=frozenset({(1, D1)})))
    assert result.proposal is not None
    assert not [m for m in result.proposal.spec.moves if (m.to_broker, m.to_dir) == (1, D1)]
    assert any("slow disks receive nothing: broker 1" in note for note in read(look, {(1, D1)}).notes)


def test_what_is_in_motion_stays() -> None:
    look = skewed()
    brokers = tuple(replace(b, moving=(("orders", 3),)) for b in look.brokers)
    first = (look.kafka.partitions or ())[0]
    moving = replace(first, adding=(9,), removing=(0,))
    view = replace(look.kafka, partitions=(moving, *(look.kafka.partitions or ())[1:]))
    result = made(replace(look, brokers=brokers, kafka=view))
    assert result.proposal is not None
    moved = {m.partition for m in result.proposal.spec.moves}
    assert moved
    assert not {0, 3} & moved


def test_what_is_no_replicas_counts_as_fill() -> None:
    reading = read(skewed(other_files=8 * GB))
    assert reading.snapshot is not None
    assert reading.snapshot.used.tolist() == [80 * GB, 8 * GB] * 3
    assert reading.snapshot.replicas == 36


def test_a_stricter_threshold_of_a_pool_is_kept() -> None:
    look = skewed()
    marks = {"warn": 10, "move": 20, "cordon": 25, "rejectMoves": 30, "blockProducers": 35}
    strict = tuple(replace(b, thresholds=marks) if b.id == 0 else b for b in look.brokers)
    reading = read(replace(look, brokers=strict))
    assert reading.snapshot is not None
    reserved = reading.snapshot.used - 72 * GB * np.array([1, 0, 1, 0, 1, 0])
    # 30 % of it may be filled by moves, so 60 % of it are kept free below the general limit of 90 %.
    assert reserved.tolist() == [28 * GB, 60 * GB, 0, 0, 0, 0]


def test_growth_is_planned_with() -> None:
    look = skewed()
    snapshot = read(look).snapshot
    assert snapshot is not None
    then = with_history(snapshot, history_of(look, 1000.0), 3600.0)
    assert set((then.planned - then.size)[~then.other].tolist()) == {3_600_000.0}
    assert set(then.rate[~then.other].tolist()) == {1000.0}
    # No disk is beyond its end, whatever is said of its growth.
    mad = with_history(snapshot, history_of(look, 1e12), 3600.0)
    assert (mad.used <= DISK).all()
    assert with_history(snapshot, ReplicaHistory(), 3600.0) is snapshot


def test_history_of_what_is_gone_or_never_was_is_ignored() -> None:
    look = skewed()
    snapshot = read(look).snapshot
    assert snapshot is not None
    told = ReplicaHistory(["zzz", "aaa", "orders"], [0, 0, 99], [0, 1, 0], [1e9] * 3, [1e9] * 3)
    assert with_history(snapshot, told, 10.0) is snapshot


def test_forecast_names_the_first_disk_to_be_full() -> None:
    look = skewed()
    disks = (
        DiskOutlook((0, D0), 10_000.0, (3000.0, 7200.0, float("inf"))),
        DiskOutlook((1, D0), 5_000.0, (9000.0, float("inf"), float("inf"))),
        DiskOutlook((2, D0)),
    )
    result = made(look, ReplicaHistory(disks=disks))
    assert result.proposal is not None
    forecast = result.proposal.spec.forecast
    assert forecast is not None
    assert forecast.first_full_disk == f"0:{D0}"
    assert forecast.first_full_at == "2025-10-09T10:53:20Z"
    assert forecast.fullest_percent == 78  # 72 GB and a week of 10 kB/s


@pytest.mark.parametrize("later", [3 * 365 * 86400.0, 1e12, float("inf")])
def test_a_disk_that_is_full_after_years_is_not_named(later: float) -> None:
    """Also where no date can say when: the calendar ends with the year 9999."""
    result = made(
        skewed(), ReplicaHistory(disks=(DiskOutlook((0, D0), 1e-3, (later / 2, later, float("inf"))),))
    )
    assert result.proposal is not None
    forecast = result.proposal.spec.forecast
    assert forecast is not None
    assert (forecast.first_full_at, forecast.first_full_disk) == (None, None)


def test_a_proposal_holds_a_beginning_of_a_large_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposing, "MAX_MOVES", 5)
    result = made(skewed())
    assert result.proposal is not None
    assert result.plan is not None
    assert result.proposal.left == 10
    assert len(result.proposal.spec.moves) == result.proposal.spec.cost.moves == 5
    assert "10 moves left" in result.message
    gain = result.proposal.spec.gain
    assert (gain.disks_out_of_band_after or 0) > 0
    assert MAX_MOVES == 2000


def test_moves_and_leaders_together_fit_where_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def size(kept: Sequence[ProposedMove | Lead]) -> int:
        return len(json.dumps([each.to_dict() for each in kept], separators=(",", ":")))

    whole = made(skewed())
    assert whole.proposal is not None
    assert len(whole.proposal.spec.leaders or ()) == 8
    assert "8 preferred leaders change" in whole.message
    most = size(whole.proposal.spec.moves) + 10  # for the moves alone
    monkeypatch.setattr(proposing, "MOST_BYTES", most)
    part = made(skewed()).proposal
    assert part is not None
    assert 0 < len(part.spec.moves) < len(whole.proposal.spec.moves)
    assert size([*part.spec.moves, *(part.spec.leaders or ())]) <= most + 2


@pytest.mark.parametrize("broken", [{}, None, [], {"format": 2}, {"format": 1, "namespace": "x"}])
def test_records_that_cannot_be_read(broken: object) -> None:
    with pytest.raises(RecordError):
        Picture.from_document(broken)


def test_brokers_are_read_from_their_objects() -> None:
    raw = {
        "metadata": {"name": "demo-broker-0"},
        "spec": {
            "cluster": "demo",
            "id": 0,
            "pool": "main",
            "disks": [
                {"name": "disk0", "claim": "c", "directoryId": "AAAAAAAAAAAAAAAAAAAAAA"},
                {"name": "disk1", "claim": "d", "directoryId": "BAAAAAAAAAAAAAAAAAAAAA", "mode": "Absent"},
            ],
            "moves": [{"topic": "t", "partition": 1, "fromDir": "/a", "toDir": "/b"}],
            "maintenance": {"disks": [{"name": "disk0", "desiredState": "Cordoned"}]},
        },
        "status": {
            "disks": [{"name": "disk0", "state": "Active", "usage": {"level": "Warn"}}],
            "observed": {"disks": [{"name": "disk0", "verdict": "Slow"}]},
        },
    }
    fact = BrokerFact.parse(raw)
    assert fact.moving == (("t", 1),)
    one, other = fact.disks
    assert (one.state, one.level, one.cordoned, one.slow) == ("Active", "Warn", True, True)
    assert other.mode == "Absent"


def test_rounding() -> None:
    assert rounded([123456.0, 0.00123456, 0.0, -1.0, float("nan"), float("inf"), 1000.0]).tolist() == [
        123500.0, 0.001235, 0.0, 0.0, 0.0, 0.0, 1000.0,
    ]  # fmt: skip

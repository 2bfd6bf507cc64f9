"""Slow disks by comparison with their peers."""

import numpy as np
import pytest

from bench.latencies import make
from bench.slow import score
from spindle.disks.peers import FEWEST_PEERS, HOURS, SAMPLES, Fleet, judge

BROKERS, EACH, STEPS = 4, 3, 60


def fleet(seed: int = 1, brokers: int = BROKERS, each: int = EACH, steps: int = STEPS) -> Fleet:
    """Well disks of one kind, with some noise."""
    rng = np.random.default_rng(seed)
    shape = (brokers * each, steps)
    return Fleet(
        broker=np.repeat(np.arange(brokers), each),
        kind=np.zeros(shape[0], np.int64),
        reads=rng.uniform(1, 10, shape),
        writes=rng.uniform(1, 10, shape),
        read_ms=8 * rng.lognormal(0, 0.2, shape),
        write_ms=3 * rng.lognormal(0, 0.2, shape),
    )


def slower(found: Fleet, disks: int | slice | list[int], begin: int, times: float) -> None:
    found.read_ms[disks, begin:] *= times
    found.write_ms[disks, begin:] *= times


def test_well_disks_are_well() -> None:
    assert not judge(fleet()).slow.any()


def test_a_disk_that_is_ten_times_slower_is_found_with_the_third_sample_and_no_other() -> None:
    seen = fleet()
    slower(seen, 4, 30, 10)
    verdicts = judge(seen)

    assert np.flatnonzero(verdicts.slow.any(axis=1)).tolist() == [4]
    assert np.flatnonzero(verdicts.slow[4])[0] == 30 + SAMPLES - 1
    assert verdicts.slow[4, -1]
    assert verdicts.ratio[4, -1] == pytest.approx(10, rel=0.9)
    assert verdicts.peers[4, -1] == BROKERS * EACH - 1


def test_it_is_well_again_when_three_samples_say_so() -> None:
    seen = fleet()
    slower(seen, 4, 20, 10)
    slower(seen, 4, 40, 0.1)

    found = np.flatnonzero(judge(seen).slow[4]).tolist()

    assert found in (list(range(22, 41)), list(range(22, 42)), list(range(22, 43)))


def test_two_samples_are_not_enough() -> None:
    seen = fleet()
    slower(seen, 4, 30, 10)
    slower(seen, 4, 32, 0.1)

    assert not judge(seen).slow.any()


def test_a_broker_all_of_whose_disks_are_slow_has_no_slow_disk() -> None:
    seen = fleet(brokers=8)
    slower(seen, [3, 4, 5], 30, 10)

    assert not judge(seen).slow.any()


def test_when_many_are_slow_at_once_it_is_not_the_disks() -> None:
    seen = fleet()
    slower(seen, [0, 3, 6, 9], 30, 10)

    assert not judge(seen).slow.any()


def test_with_too_few_peers_nobody_can_tell() -> None:
    seen = fleet(brokers=FEWEST_PEERS - 1, each=1)
    slower(seen, 0, 30, 10)
    verdicts = judge(seen)

    assert not verdicts.slow.any()
    assert np.isnan(verdicts.ratio).all()


def test_disks_are_compared_with_their_kind_only() -> None:
    seen = fleet(brokers=8)
    seen.kind[12:] = 1
    slower(seen, slice(12, None), 0, 20)

    assert not judge(seen).slow.any()


def test_next_to_one_hour_that_was_low_by_chance_an_ordinary_bad_one_is_not_slow() -> None:
    seen = fleet(steps=180)
    slower(seen, 4, 0, 3)
    slower(seen, 4, 24, 1 / 3)
    slower(seen, 4, 36, 3)
    slower(seen, 4, 160, 2)  # six times what is usual, and what it was in its best hour

    assert not judge(seen).slow[4].any()


def test_a_disk_that_has_been_slow_for_longer_than_the_past_counts_is_slow_still() -> None:
    seen = fleet(steps=12 * (HOURS + 12))
    slower(seen, 4, 40, 10)

    slow = judge(seen).slow[4]
    assert slow[42:].all()


def test_a_disk_that_was_slow_for_longer_than_the_past_counts_is_found_when_it_is_slow_again() -> None:
    seen = fleet(steps=12 * 3 * HOURS)
    slower(seen, 4, 40, 10)
    slower(seen, 4, 12 * (HOURS + 6), 0.1)
    slower(seen, 4, 12 * (2 * HOURS + 6), 10)

    slow = judge(seen).slow[4]
    assert not slow[12 * (HOURS + 6) + SAMPLES : 12 * (2 * HOURS + 6)].any()
    assert slow[12 * (2 * HOURS + 6) + SAMPLES - 1 :].all()


def test_a_model_that_is_slower_and_had_a_bad_start_is_well_again_soon() -> None:
    seen = fleet(steps=120)
    slower(seen, 4, 0, 12)
    slower(seen, 4, 6, 2.6 / 12)

    slow = judge(seen).slow[4]
    assert slow[SAMPLES]
    assert not slow[12:].any()


def test_a_model_that_always_was_slower_is_not_slow_but_one_that_always_was_far_slower_is() -> None:
    seen = fleet()
    slower(seen, 4, 0, 5.5)
    slower(seen, 8, 0, 20)

    assert np.flatnonzero(judge(seen).slow.any(axis=1)).tolist() == [8]


def test_more_reads_than_writes_are_no_slowness() -> None:
    seen = fleet()
    seen.read_ms[:] *= 10  # on all; writes are quick
    seen.writes[4, 30:], seen.reads[4, 30:] = 0.0, 20.0

    assert not judge(seen).slow.any()


def test_without_requests_a_verdict_stays_as_it_is() -> None:
    seen = fleet()
    slower(seen, 4, 20, 10)
    seen.reads[4, 30:], seen.writes[4, 30:] = 0.0, 0.0

    assert judge(seen).slow[4, -1]


def test_later_samples_change_no_earlier_verdict() -> None:
    seen = fleet()
    slower(seen, 4, 20, 10)
    cut = Fleet(
        seen.broker,
        seen.kind,
        *(each[:, :40] for each in (seen.reads, seen.writes, seen.read_ms, seen.write_ms)),
    )

    assert (judge(cut).slow == judge(seen).slow[:, :40]).all()


def test_no_disks_have_no_verdicts() -> None:
    nothing = np.zeros((0, 5))
    none = np.zeros(0, np.int64)

    assert judge(Fleet(none, none, nothing, nothing, nothing, nothing)).slow.shape == (0, 5)


def test_the_goal_is_met_on_a_made_up_fleet() -> None:
    truth = make(5, 3)
    _, days, sick, soon, _, false = score(truth, judge(truth.fleet)).tolist()

    assert sick > 10
    assert soon >= 0.9 * sick
    assert false <= 2 * days / 1000

"""What the samples of a broker come to."""

import numpy as np
import pytest

from spindle_rebalance import summary
from spindle_rebalance.tidy import Dated, clean_records
from tests.unit.rebalance_samples import CLUSTER, INTERVAL, at, disk, record, records, replica, sample


def moments(*samples: object) -> list[list[Dated]]:
    rows = [record(each, offset) for offset, each in enumerate(samples)]  # type: ignore[arg-type]
    return clean_records([records(rows)], CLUSTER).moments


def test_a_line_grows_as_it_does_whatever_single_samples_say() -> None:
    at_s: summary.Floats = np.arange(100, dtype=np.float64) * 300.0
    sizes: summary.Floats = 5.0 * at_s[None, :] + 1000
    sizes[:, [3, 50, 51]] *= 10
    sizes[:, 70] = np.nan

    assert summary.slopes(at_s, sizes) == pytest.approx(np.array([5.0]))


def test_a_saw_tooth_is_no_growth() -> None:
    at_s: summary.Floats = np.arange(288, dtype=np.float64) * 300.0
    saw: summary.Floats = 1e9 + (at_s[None, :] % 7200) * 1e4

    assert abs(summary.slopes(at_s, saw)[0]) < 0.05 * 1e4


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_samples_have_no_slope(count: int) -> None:
    assert np.isnan(summary.slopes(np.arange(count, dtype=np.float64) * 3600, np.ones((2, count)))).all()


def test_quantiles_are_those_of_numpy_without_what_is_missing() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(40, 31))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[5] = np.nan

    (found,) = summary.quantiles(values, (0.95,))

    assert np.isnan(found[5])
    rest = np.arange(40) != 5
    assert found[rest] == pytest.approx(np.nanquantile(values[rest], 0.95, axis=1))


def test_replicas_are_those_of_the_latest_sample() -> None:
    found = summary.replicas(
        moments(
            sample(at(0), [replica("gone", 0, 9), replica("t", 0, 10)]),
            sample(at(1), [replica("t", 0, 20), replica("new", 3, 1, append_rate=None, leader=None)]),
        )
    )

    assert list(zip(found.topic, found.partition.tolist(), found.size.tolist(), strict=True)) == [
        ("t", 0, 20),
        ("new", 3, 1),
    ]
    assert found.leader == [True, None]
    assert found.p95[0] == 10.0
    assert np.isnan(found.p95[1])
    assert np.isnan(found.growth).all()


def test_a_replica_that_moved_between_disks_is_where_it_is_now() -> None:
    found = summary.replicas(
        moments(sample(at(0), [replica("t", 0, 10, "/d0")]), sample(at(1), [replica("t", 0, 10, "/d1")]))
    )

    assert (found.topic, found.dir) == (["t"], ["/d1"])


def test_replicas_of_a_part_that_is_missing_are_not_gone() -> None:
    whole = (
        sample(at(0), [replica("t", 0, 1)], part=0, parts=2),
        sample(at(0), [replica("t", 1, 1)], part=1, parts=2),
    )
    found = summary.replicas(moments(*whole, sample(at(1), [replica("t", 0, 2)], part=0, parts=2)))

    assert list(zip(found.partition.tolist(), found.size.tolist(), strict=True)) == [(0, 2), (1, 1)]


def test_the_history_of_a_disk_has_what_was_appended_to_its_replicas() -> None:
    (found,) = summary.disks(
        moments(
            *(
                sample(
                    at(step),
                    [replica("t", 0, 1), replica("t", 1, 1, append_rate=None)],
                    [disk(used=500 + step)],
                )
                for step in (0, 1, 4)
            )
        )
    )

    assert found.used.tolist() == [500, 501, 504]
    assert found.at_s.tolist() == [at(step) / 1000 for step in (0, 1, 4)]
    assert found.appended is not None
    assert found.appended.tolist() == [10.0 * INTERVAL, 10.0 * INTERVAL, 30.0 * INTERVAL]


def test_what_nobody_counted_is_not_known() -> None:
    (found,) = summary.disks(
        moments(*(sample(at(step), [replica("t", 0, 1, append_rate=None)], [disk()]) for step in range(3)))
    )

    assert found.appended is None


def test_a_new_disk_in_the_slot_begins_anew() -> None:
    old = [sample(at(step), [], [disk(used=900)]) for step in range(3)]
    new = [sample(at(step), [], [disk(used=10, capacity=2000)]) for step in range(3, 5)]
    (found,) = summary.disks(moments(*old, *new))

    assert found.used.tolist() == [10, 10]


def test_a_file_system_that_grew_goes_on() -> None:
    (found,) = summary.disks(
        moments(sample(at(0), [], [disk(used=900)]), sample(at(1), [], [disk(used=901, capacity=2000)]))
    )

    assert found.used.tolist() == [900, 901]
    assert found.capacity.tolist() == [1000, 2000]


def test_a_disk_of_which_nobody_knows_the_size_has_no_history() -> None:
    assert summary.disks(moments(sample(at(0), [], [disk(capacity=None)]))) == []


def test_nothing_is_nothing() -> None:
    assert summary.disks([]) == []

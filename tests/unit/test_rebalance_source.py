"""How ranges of offsets are split, and which options are refused."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from spindle_rebalance.source import NO_BROKER, Access, SamplesSource, broker_of, split

_RANGES = st.dictionaries(
    st.integers(0, 20),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=8,
)


@given(_RANGES, st.integers(1, 64))
def test_splits_are_the_ranges_without_gap_or_overlap(
    ranges: dict[int, tuple[int, int]], wanted: int
) -> None:
    found = split(ranges, wanted)

    for partition, (first, end) in ranges.items():
        mine = [(each.first, each.end) for each in found if each.partition == partition]
        if first == end:
            assert mine == []
            continue
        assert mine[0][0] == first
        assert mine[-1][1] == end
        assert all(before[1] == after[0] for before, after in pairwise(mine))
        assert all(a < b for a, b in mine)
    assert len(found) <= wanted + len(ranges)


def test_a_key_names_a_broker_or_none() -> None:
    assert [broker_of(key) for key in (b"0", b"17", b"2147483647")] == [0, 17, 2**31 - 1]
    assert {broker_of(key) for key in (None, b"", b"x", b"-1", b"1.5", b"2147483648", b"9" * 30)} == {
        NO_BROKER
    }


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        pytest.param("", "needs the option ranges", id="none"),
        pytest.param("all", "must look like", id="no JSON"),
        pytest.param("[1, 2]", "must look like", id="a list"),
        pytest.param('{"0": 5}', "must look like", id="a number"),
        pytest.param('{"0": [7, 5]}', "cannot have offsets 7 to 5", id="backwards"),
        pytest.param('{"-1": [1, 5]}', "partition -1", id="no partition"),
    ],
)
def test_ranges_that_are_none_are_refused(ranges: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplesSource({"bootstrap": "host:9092", "ranges": ranges}).reader(StructType())


def test_options_name_files_and_have_nothing_of_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text("very secret")

    assert "secret" not in repr(Access(("host:9092",), tmp_path).options())

from hypothesis import given
from hypothesis import strategies as st

from spindle.disks.strays import Copy, strays

COPIES = st.lists(
    st.builds(
        Copy,
        folder=st.sampled_from(["t-0", "t-1", "u-0"]),
        disk=st.sampled_from(["disk0", "disk1", "disk2"]),
        dir_used=st.floats(0, 1000),
        written=st.floats(0, 1000),
        size=st.integers(0, 9),
    ),
    unique_by=lambda copy: (copy.folder, copy.disk),
)


@given(COPIES)
def test_exactly_one_copy_of_each_folder_stays_and_then_nothing_is_left_to_do(copies: list[Copy]) -> None:
    gone = strays(copies)
    kept = [copy for copy in copies if copy not in gone]
    assert sorted(copy.folder for copy in kept) == sorted({copy.folder for copy in copies})
    assert strays(kept) == []


@given(COPIES)
def test_copy_on_a_dir_long_out_of_use_never_wins_over_one_in_use(copies: list[Copy]) -> None:
    gone = strays(copies)
    for copy in copies:
        if copy not in gone:
            rivals = [other for other in copies if other.folder == copy.folder]
            assert copy.dir_used >= max(other.dir_used for other in rivals) - 30


@given(COPIES)
def test_order_does_not_matter(copies: list[Copy]) -> None:
    assert strays(copies) == strays(reversed(copies))

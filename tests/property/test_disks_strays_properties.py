from hypothesis import given
from hypothesis import strategies as st

from spindle.disks.log_end import LogEnd
from spindle.disks.strays import Copy, strays

ENDS = st.builds(
    LogEnd, topic_id=st.sampled_from(["a", "b"]), epoch=st.integers(-1, 2), offset=st.integers(0, 3)
)


def copies_with(ends: st.SearchStrategy[LogEnd | None]) -> st.SearchStrategy[list[Copy]]:
    return st.lists(
        st.builds(
            Copy,
            folder=st.sampled_from(["t-0", "t-1", "u-0"]),
            disk=st.sampled_from(["disk0", "disk1", "disk2"]),
            dir_used=st.floats(0, 1000),
            written=st.floats(0, 1000),
            size=st.integers(0, 9),
            end=ends,
        ),
        unique_by=lambda copy: (copy.folder, copy.disk),
    )


COPIES = copies_with(st.none() | ENDS)


@given(COPIES)
def test_exactly_one_copy_of_each_folder_stays_and_then_nothing_is_left_to_do(copies: list[Copy]) -> None:
    gone = strays(copies)
    kept = [copy for copy in copies if copy not in gone]
    assert sorted(copy.folder for copy in kept) == sorted({copy.folder for copy in copies})
    assert strays(kept) == []


@given(copies_with(ENDS))
def test_a_copy_that_got_less_far_than_another_of_its_topic_never_wins(copies: list[Copy]) -> None:
    gone = strays(copies)
    for copy in copies:
        rivals = [other.end for other in copies if other.folder == copy.folder and other.end]
        if copy not in gone and copy.end and len({end.topic_id for end in rivals}) == 1:
            assert (copy.end.epoch, copy.end.offset) == max((end.epoch, end.offset) for end in rivals)


@given(copies_with(st.none()))
def test_copy_on_a_dir_long_out_of_use_never_wins_over_one_in_use(copies: list[Copy]) -> None:
    gone = strays(copies)
    for copy in copies:
        if copy not in gone:
            rivals = [other for other in copies if other.folder == copy.folder]
            assert copy.dir_used >= max(other.dir_used for other in rivals) - 30


@given(COPIES)
def test_order_does_not_matter(copies: list[Copy]) -> None:
    assert strays(copies) == strays(reversed(copies))

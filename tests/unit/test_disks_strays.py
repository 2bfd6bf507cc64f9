from spindle.disks.log_end import LogEnd
from spindle.disks.strays import Copy, is_partition_folder, strays


def copy(
    disk: str,
    *,
    folder: str = "t-0",
    used: float = 1000,
    written: float = 1000,
    size: int = 10,
    end: LogEnd | None = None,
) -> Copy:
    return Copy(folder=folder, disk=disk, dir_used=used, written=written, size=size, end=end)


def test_a_disk_that_failed_while_the_clock_was_ahead_gives_way() -> None:
    old = copy("disk0", used=1900, written=1900, size=99, end=LogEnd("id", 4, 70))
    assert strays([old, copy("disk1", end=LogEnd("id", 4, 90))]) == [old]
    assert strays([old, copy("disk1", end=LogEnd("id", 5, 60))]) == [old]


def test_copies_that_got_equally_far_or_are_of_two_topics_are_told_apart_by_time() -> None:
    old = copy("disk0", used=500, end=LogEnd("id", 4, 70))
    assert strays([old, copy("disk1", end=LogEnd("id", 4, 70))]) == [old]
    assert strays([old, copy("disk1", end=LogEnd("other", 1, 2))]) == [old]
    assert strays([old, copy("disk1")]) == [old]


def test_one_copy_stays() -> None:
    assert strays([copy("disk0"), copy("disk1", folder="t-1")]) == []


def test_the_disk_that_came_back_gives_way_even_if_its_copy_is_larger() -> None:
    old = copy("disk0", used=500, written=500, size=99)
    assert strays([old, copy("disk1")]) == [old]


def test_idle_partition_on_the_disk_in_use_wins_over_a_later_write_on_the_one_that_failed() -> None:
    old = copy("disk0", used=500, written=499)
    assert strays([old, copy("disk1", written=100)]) == [old]


def test_killed_between_the_renames_of_a_move_the_later_written_copy_wins() -> None:
    source = copy("disk0", used=1005, written=990)
    assert strays([source, copy("disk1", used=1000, written=995)]) == [source]


def test_three_copies_leave_one() -> None:
    assert len(strays([copy("disk0"), copy("disk1"), copy("disk2")])) == 2


def test_folders_that_are_no_current_logs_are_none_of_its_business() -> None:
    names = ["t-0.0123-future", "t-0.0123-delete", "t-0.0123-stray", "lost+found", "meta.properties", "t"]
    assert not any(is_partition_folder(name) for name in names)
    assert is_partition_folder("my.topic_name-with-dashes-17")
    assert strays([copy(disk, folder=name) for name in names for disk in ("disk0", "disk1")]) == []

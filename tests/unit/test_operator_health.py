from spindle_operator.health import Health


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_standby_is_alive() -> None:
    assert Health().problem() is None


def test_one_cluster_without_finished_passes_is_no_problem_and_all_of_them_are() -> None:
    clock = Clock()
    health = Health(bound=100, clock=clock)
    health.started("ns/a")
    health.started("ns/b")
    clock.now = 90
    health.finished("ns/b")
    clock.now = 101
    assert health.problem() is None, "one cluster's pass is not the loop's"
    assert health.ages()["ns/a"] == 101
    clock.now = 191
    assert "no pass of any of 2 clusters" in (health.problem() or "")
    health.finished("ns/a")
    assert health.problem() is None


def test_a_cluster_that_is_gone_does_not_count_and_cannot_come_back_by_a_late_pass() -> None:
    clock = Clock()
    health = Health(bound=10, clock=clock)
    health.started("ns/a")
    health.stopped("ns/a")
    health.finished("ns/a")
    clock.now = 1000
    assert health.problem() is None
    assert health.ages() == {}

"""What a running broker is told of the user's settings, and what it keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.api.owned import owned
from spindle.config.defaults import Default, Defaults, default_changes
from spindle.config.dynamic_config import ON_BROKERS, UNCLEAN, ConfigChanges, config_changes, fixed
from spindle.model.config_values import ConfigValues

KEY = "log.retention.ms"


def test_what_is_as_it_should_be_needs_nothing() -> None:
    assert config_changes({KEY: "1"}, {KEY: ConfigValues(static="1")}, {}) == ConfigChanges()
    assert config_changes({KEY: "1"}, {KEY: ConfigValues(own="1", static="2")}, {KEY: "1"}) == ConfigChanges(
        ours={KEY: "1"}
    )


def test_a_changed_setting_is_told_and_noted() -> None:
    assert config_changes({KEY: "2"}, {KEY: ConfigValues(static="1")}, {}) == ConfigChanges(
        {KEY: "2"}, {KEY: "2"}
    )


def test_what_is_ours_goes_when_the_broker_was_started_with_it() -> None:
    assert config_changes({KEY: "2"}, {KEY: ConfigValues(own="2", static="2")}, {KEY: "2"}) == ConfigChanges(
        {KEY: None}
    )


def test_what_is_wanted_no_more_goes_and_needs_a_start_only_if_the_file_has_it() -> None:
    assert config_changes({}, {KEY: ConfigValues(own="2")}, {KEY: "2"}) == ConfigChanges({KEY: None})
    assert config_changes({}, {KEY: ConfigValues(static="2")}, {}) == ConfigChanges(restart=(KEY,))


@pytest.mark.parametrize(
    "standing",
    [ConfigValues(own="7", static="1"), ConfigValues(shared="7", static="1")],
    ids=["broker", "cluster"],
)
def test_what_somebody_else_has_set_is_left_and_told(standing: ConfigValues) -> None:
    assert config_changes({KEY: "2"}, {KEY: standing}, {}) == ConfigChanges(by_hand={KEY: ("7", "2")})


def test_what_was_ours_and_is_another_now_is_somebody_elses() -> None:
    assert config_changes({KEY: "2"}, {KEY: ConfigValues(own="7", static="1")}, {KEY: "2"}) == ConfigChanges(
        by_hand={KEY: ("7", "2")}
    )


@given(st.integers(1, 200), st.integers(1, 200))
def test_threads_come_to_any_number_in_steps_that_kafka_takes(start: int, wanted: int) -> None:
    now, ours = ConfigValues(static=str(start)), dict[str, str]()
    for _ in range(20):
        tuning = config_changes({"num.io.threads": str(wanted)}, {"num.io.threads": now}, ours)
        assert not tuning.by_hand
        if not tuning.orders:
            break
        step = tuning.orders["num.io.threads"]
        assert step is not None
        before = int(now.effective or 0)
        assert before // 2 <= int(step) <= 2 * before
        now, ours = ConfigValues(own=step, static=str(start)), dict(tuning.ours)
    assert now.effective == str(wanted)
    for _ in range(20):
        tuning = config_changes({"num.io.threads": str(start)}, {"num.io.threads": now}, ours)
        if not tuning.orders:
            break
        step = tuning.orders["num.io.threads"]
        before, after = int(now.effective or 0), int(step or start)
        assert before // 2 <= after <= 2 * before
        now, ours = ConfigValues(own=step, static=str(start)), dict(tuning.ours)
    assert now == ConfigValues(static=str(start))


MIN_ISR = "min.insync.replicas"


def test_the_clusters_defaults_are_set_only_where_the_spec_names_them() -> None:
    standing = {MIN_ISR: ConfigValues(shared="1", static="2")}
    assert default_changes({}, standing, {}) == Defaults()
    assert default_changes({MIN_ISR: "1"}, standing, {}) == Defaults()
    assert default_changes({MIN_ISR: "2"}, standing, {}) == Defaults(
        {MIN_ISR: "2"}, {MIN_ISR: Default("2", former="1")}
    )


def test_a_default_that_the_spec_names_no_more_is_what_it_was() -> None:
    ours = {MIN_ISR: Default("2", former="1")}
    assert default_changes({}, {MIN_ISR: ConfigValues(shared="2")}, ours) == Defaults({MIN_ISR: "1"}, ours)
    assert default_changes({}, {MIN_ISR: ConfigValues(shared="1")}, ours) == Defaults()
    assert default_changes({}, {MIN_ISR: ConfigValues(shared="3")}, ours) == Defaults()


def test_a_default_that_somebody_else_has_changed_is_left() -> None:
    ours = {MIN_ISR: Default("2", former="1")}
    told = default_changes({MIN_ISR: "2"}, {MIN_ISR: ConfigValues(shared="3")}, ours)
    assert told == Defaults(ours=ours, by_hand={MIN_ISR: ("3", "2")})
    told = default_changes({UNCLEAN: "false"}, {UNCLEAN: ConfigValues(shared="true")}, {})
    assert told == Defaults(by_hand={UNCLEAN: ("true", "false")})


def test_a_restart_is_for_what_kafka_does_not_take_while_it_runs() -> None:
    settings = {"num.io.threads": "4", "num.partitions": "3", "min.insync.replicas": "2"}
    assert fixed(settings) == {"num.partitions": "3"}
    assert fixed(settings, own={"min.insync.replicas": "2"}) == {
        "num.partitions": "3",
        "min.insync.replicas": "2",
    }


def test_nothing_of_it_is_spindles_own() -> None:
    assert [key for key in sorted(ON_BROKERS) if owned(key)] == []

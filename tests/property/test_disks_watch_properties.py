"""Whatever a disk does, its verdicts are few, its life ends quiet, and rule 9 only ever gets stricter."""

import errno
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.api.enums import DiskState, DiskVerdict
from spindle.disks.classify import HOLD_SECONDS, WINDOW_SECONDS, DiskTracker, Judged, resume, step
from spindle.disks.correlated_failures import may_act_on_failures
from spindle.disks.findings import RULES, ProbeSettings
from spindle.disks.health import Health
from spindle.disks.lifecycle import TRANSITIONS, TRIGGERS, DiskFacts
from spindle.disks.lifecycle import initial as initial_state
from spindle.disks.lifecycle import step as live
from spindle.disks.signals import Latency, Probe, ProbeOutcome, Signals
from spindle.model import disk_facts

TUNING = ProbeSettings()
GOOD = Signals(
    directory_id="d",
    mounted=True,
    fs_uuid="0a1b2c3d-0000-4000-8000-00000000000f",
    recorded_fs_uuid="0a1b2c3d-0000-4000-8000-00000000000f",
    read_only=False,
    probe=Probe.ok(),
    kafka_error=0,
    capacity_bytes=1000,
    used_bytes=10,
    content=disk_facts.OURS,
)
PER_WINDOW = 23  # three triggers that rise and fall three times each, and five changes of kind

probes = st.one_of(
    st.just(Probe.ok()),
    st.just(Probe()),
    st.just(Probe.wrong()),
    st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.EACCES]).map(
        lambda number: Probe.error(number, "write")
    ),
    st.floats(0, 30).map(lambda ago: Probe.pending(-ago, "write")),  # made absolute by `at`
)
signals = st.builds(
    replace,
    st.just(GOOD),
    mode=st.sampled_from([disk_facts.ACTIVE, disk_facts.PLACEHOLDER]),
    mounted=st.sampled_from([True, True, True, False, None]),
    fs_uuid=st.sampled_from([GOOD.fs_uuid, GOOD.fs_uuid, None, "0a1b2c3d-0000-4000-8000-000000000010"]),
    read_only=st.sampled_from([False, False, True, None]),
    probe=probes,
    latency=st.sampled_from([Latency(), Latency(500.0, 5.0, far=True)]),
    kafka_error=st.sampled_from([0, 0, 56, None]),
    used_bytes=st.sampled_from([10, 990]),
    content=st.sampled_from(
        [disk_facts.OURS, disk_facts.OURS, disk_facts.BLANK, disk_facts.FOREIGN, disk_facts.UNKNOWN]
    ),
)
# Stretches of rounds that see the same, as disks do, and the seconds between them.
stretches = st.lists(
    st.tuples(signals, st.integers(1, 40), st.sampled_from([0.0, 0.5, 2.0, 2.0, 2.0, 20.0])), max_size=40
)
pairs = st.tuples(signals, signals, st.integers(1, 25), st.integers(1, 25), st.integers(1, 40))


def at(seen: Signals, now: float) -> Signals:
    probe = seen.probe
    if probe.outcome is ProbeOutcome.PENDING and probe.since is not None and probe.since <= 0:
        return replace(seen, probe=replace(probe, since=now + probe.since))
    return seen


def rounds(stretched: list[tuple[Signals, int, float]]) -> list[tuple[float, Signals]]:
    now, made = 0.0, []
    for seen, count, pause in stretched:
        for _ in range(count):
            made.append((now, at(seen, now)))
            now += pause
    return made


def verdicts(seen: list[tuple[float, Signals]], watch: DiskTracker | None = None) -> list[tuple[float, str]]:
    """When the verdict changed, and to what; a probe that is to be repeated sees the same again."""
    watch = watch or DiskTracker()
    changes: list[tuple[float, str]] = []
    for now, each in seen:
        made = step(watch, each, now, TUNING)
        if made.again:
            made = step(made.watch, each, now, TUNING)
            assert not made.again
        watch = made.watch
        if watch.judged is not None and (not changes or changes[-1][1] != watch.judged.verdict):
            changes.append((now, watch.judged.verdict))
    return changes


def few(changes: list[tuple[float, str]]) -> None:
    times = [when for when, _ in changes[1:]]  # the first is no change
    for index, when in enumerate(times):
        within = [other for other in times[index:] if other - when < WINDOW_SECONDS]
        assert len(within) <= PER_WINDOW, changes


@given(stretches)
def test_verdicts_change_seldom(stretched: list[tuple[Signals, int, float]]) -> None:
    few(verdicts(rounds(stretched)))


@given(stretches)
def test_who_is_starved_calls_nothing_hung_or_slow_and_every_error_an_error(
    stretched: list[tuple[Signals, int, float]],
) -> None:
    """Whatever is seen: with no time of one's own only what a disk answers counts, and each such verdict is given all the same."""
    watch = DiskTracker()
    for now, each in rounds(
        [(replace(seen, starved=True), count, pause) for seen, count, pause in stretched]
    ):
        made = step(watch, each, now, TUNING)
        watch = step(made.watch, each, now, TUNING).watch if made.again else made.watch
        assert watch.judged is None or watch.judged.reason not in ("IOHung", "SlowDevice", "NotAnswering")
    for now in (10_000.0, 10_000.1, 10_000.2):
        watch = step(watch, replace(GOOD, mounted=False, starved=True), now, TUNING).watch
    assert watch.judged is not None
    assert watch.judged.verdict is DiskVerdict.MISSING or watch.judged.reason == "Flapping"


@given(pairs)
def test_what_goes_to_and_fro_ends_in_few_verdicts(pair: tuple[Signals, Signals, int, int, int]) -> None:
    one, other, first, second, times = pair
    few(verdicts(rounds([(one, first, 2.0), (other, second, 2.0)] * times)))


@given(stretches)
def test_a_machine_is_a_function(stretched: list[tuple[Signals, int, float]]) -> None:
    seen = rounds(stretched)
    assert verdicts(seen) == verdicts(seen)


@given(stretches)
def test_whatever_was_a_disk_that_stays_well_is_healthy_in_the_end(
    stretched: list[tuple[Signals, int, float]],
) -> None:
    seen = rounds(stretched)
    end = seen[-1][0] if seen else 0.0
    calm = [(end + 2.0 * n, GOOD) for n in range(1, int(HOLD_SECONDS / 2) + 70)]
    assert verdicts(seen + calm)[-1][1] == DiskVerdict.HEALTHY


@given(stretches)
def test_whatever_was_a_dead_disk_is_bad_at_once(stretched: list[tuple[Signals, int, float]]) -> None:
    seen = rounds(stretched)
    end = seen[-1][0] if seen else 0.0
    dead = replace(GOOD, probe=Probe.error(errno.EIO, "fsync"))
    assert DiskVerdict(verdicts([*seen, (end + 2.0, dead)])[-1][1]).bad


@given(stretches)
def test_whatever_was_a_hung_disk_is_failed_in_time(stretched: list[tuple[Signals, int, float]]) -> None:
    seen = rounds(stretched)
    froze = (seen[-1][0] if seen else 0.0) + 2.0
    hangs = replace(GOOD, probe=Probe.pending(froze, "write"), latency=Latency(quiet=60.0))
    waiting = [(froze + 2.0 * n, hangs) for n in range(8)]
    assert DiskVerdict(verdicts(seen + waiting)[-1][1]).bad


@given(stretches, st.sampled_from(list(DiskVerdict)), st.sampled_from(["", "Flapping", "New", *RULES]))
def test_any_report_can_be_gone_on_from(
    stretched: list[tuple[Signals, int, float]], verdict: DiskVerdict, reason: str
) -> None:
    watch = resume(GOOD.life, Judged(verdict, reason, "m", -100.0))
    few([(-100.0, verdict), *verdicts(rounds(stretched), watch)])


@given(st.lists(st.tuples(st.sampled_from([True, False]), st.integers(1, 60)), min_size=1, max_size=60))
def test_a_bad_disk_is_never_well_before_its_time(stretched: list[tuple[bool, int]]) -> None:
    """Never Healthy within thirty seconds after an error that made it bad."""
    dead = replace(GOOD, probe=Probe.error(errno.EIO, "fsync"))
    watch, now, last_error = DiskTracker(), 0.0, None
    for well, count in stretched:
        for _ in range(count):
            made = step(watch, GOOD if well else dead, now, TUNING)
            watch = step(made.watch, dead, now, TUNING).watch if made.again else made.watch
            last_error = last_error if well else now
            assert watch.judged is not None
            if last_error is not None and now - last_error < 30:
                assert watch.judged.verdict.bad
            now += 2.0


# --- the life of a disk -----------------------------------------------------------------------------------------------

healths = st.builds(
    Health,
    verdict=st.sampled_from([*map(str, DiskVerdict), "Unknown"]),
    since=st.just(0.0),
    fresh=st.booleans(),
)
maybe = st.sampled_from([True, False, None])
lives = st.builds(
    DiskFacts,
    health=healths,
    mode=st.sampled_from([disk_facts.ACTIVE, disk_facts.PLACEHOLDER, disk_facts.ABSENT]),
    online=maybe,
    empty=maybe,
    out=maybe,
    **{
        name: st.booleans()
        for name in (
            "may_empty",
            "new_disk",
            "backfilled",
            "cordon_requested",
            "drain_requested",
            "backfilling",
            "removing",
            "released",
        )
    },
)


@given(lives, st.sampled_from(list(DiskState)))
@settings(max_examples=2000)
def test_a_life_comes_to_rest_while_nothing_changes(seen: DiskFacts, state: DiskState) -> None:
    passed = {state}
    while (row := live(state, seen)) is not None:
        state = row.target
        assert state not in passed, (passed, state, row)
        passed.add(state)


@given(lives, st.sampled_from(list(DiskState)))
def test_the_table_is_deterministic(seen: DiskFacts, state: DiskState) -> None:
    row = live(state, seen)
    due = [each for each in TRANSITIONS if each.source is state and TRIGGERS[each.trigger](seen)]
    assert row is (due[0] if due else None)


@given(lives, st.sampled_from(list(DiskState)))
def test_unsure_facts_take_no_disk_out_of_use(seen: DiskFacts, state: DiskState) -> None:
    unsure = replace(
        seen,
        health=replace(seen.health, fresh=False),
        online=None,
        empty=None,
        out=None,
        drain_requested=False,
    )
    row = live(state, replace(unsure, removing=False, released=False))
    # Another volume in the place of an empty disk is one, whoever looks: preflight sees to it that it is blank.
    assert row is None or (state, row.target) in (
        (DiskState.ACTIVE, DiskState.CORDONED),
        (DiskState.EVACUATED, DiskState.REPLACING),
        (DiskState.DRAINED, DiskState.REPLACING),
    )


@given(lives)
def test_every_disk_has_a_state_to_begin_with(seen: DiskFacts) -> None:
    assert initial_state(seen) in DiskState


# --- rule 9 -----------------------------------------------------------------------------------------------------------

NOW = 10_000.0
bads = st.dictionaries(
    st.tuples(st.integers(0, 12), st.sampled_from(["disk0", "disk1", "disk2"])),
    st.floats(NOW - 1200, NOW + 60),
    max_size=30,
)


@given(bads, bads, st.integers(1, 200), st.floats(0, 1))
def test_more_bad_disks_never_allow_what_fewer_forbid(
    some: dict[tuple[int, str], float], more: dict[tuple[int, str], float], total: int, share: float
) -> None:
    if may_act_on_failures(some, total, NOW, share) is not None:
        together = {key: max(some.get(key, 0.0), more.get(key, 0.0)) for key in {*some, *more}}
        assert may_act_on_failures(together, total, NOW, share) is not None


@given(bads, st.integers(1, 200), st.integers(0, 200), st.floats(0, 1), st.floats(0, 1))
def test_larger_clusters_and_shares_never_forbid_what_smaller_allow(
    some: dict[tuple[int, str], float], total: int, more: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    if may_act_on_failures(some, total, NOW, low) is None:
        assert may_act_on_failures(some, total + more, NOW, high) is None


@given(bads, st.integers(1, 200), st.floats(0, 1), st.floats(0, 2000))
def test_time_alone_never_forbids(
    some: dict[tuple[int, str], float], total: int, share: float, later: float
) -> None:
    if may_act_on_failures(some, total, NOW, share) is None:
        assert may_act_on_failures(some, total, NOW + later, share) is None


@given(bads, st.integers(1, 200), st.floats(0, 1))
def test_two_brokers_may_always_lose_disks(
    some: dict[tuple[int, str], float], total: int, share: float
) -> None:
    two = {key: since for key, since in some.items() if key[0] < 2}
    assert may_act_on_failures(two, total, NOW, share) is None

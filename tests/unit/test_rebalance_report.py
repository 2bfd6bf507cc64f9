import re
from dataclasses import replace

import pyarrow as pa

from spindle.api import names
from spindle.balance.picture import Picture
from spindle_rebalance import plan, report, report_charts
from spindle_rebalance.findings import (
    REPLICAS,
    ClockOff,
    DiskFinding,
    Findings,
    Poisoned,
    ReadReport,
    SlowFinding,
)
from tests.unit.balance_samples import DISK, GB, skewed

SLOW = SlowFinding(0, 12.5, 50.0, 4.0, 5, "disk1: requests take 50.0 ms, <peers> 4.0 ms")


def findings() -> Findings:
    disks = [
        DiskFinding(
            broker=b,
            dir=names.log_dir(f"disk{d}"),
            disk=f"disk{d}",
            kind="ssd",
            capacity=DISK,
            used=72 * GB,
            history_s=86400.0 if d == 0 else 0.0,
            level_per_s=1e5,
            full_in_s=(2e5, 2.8e5, float("inf")) if d == 0 else None,
            slow=SLOW if (b, d) == (1, 1) else None,
            backtest_error_h=1.5,
        )
        for b in range(3)
        for d in range(2)
    ]
    rows = [
        ("orders", i, b, names.log_dir("disk0"), 6 * GB, 100.0, None) for b in range(3) for i in range(12)
    ]
    table = pa.table(
        [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), REPLICAS, strict=True)], schema=REPLICAS
    )
    read = ReadReport(
        10, 360, (Poisoned(0, 7, "it is <no> sample"),), {0: (0, 10)}, 1, 2, (ClockOff(2, 3600.0, 4),)
    )
    return Findings(tuple(disks), table, read)


def page(picture: Picture, found: Findings | None) -> str:
    reading, result = plan.plan(picture, found)
    return report.render(picture, reading, result, found)


def test_it_says_what_is_proposed_and_why_and_what_was_left_alone() -> None:
    made = page(skewed(), findings())
    assert "ns/demo: Proposed" in made
    assert "spindle rebalance approve demo-" in made
    assert "over band" in made
    assert "slow disks receive nothing: broker 1" in made
    assert "disk1: requests take 50.0 ms, &lt;peers&gt; 4.0 ms" in made
    assert "partition 0, offset 7: it is &lt;no&gt; sample" in made
    assert "the clock of broker 2 was 3600 s ahead" in made
    assert "3 of 6 disks have too little history yet" in made


def test_no_request_leaves_the_page() -> None:
    made = page(skewed(), findings())
    assert not re.search(r"(\b(src|href)=|url\(|@import|<script|<link|<iframe)", made)
    assert "http:" not in made
    assert "https:" not in made
    assert "default-src 'none'" in made


def test_a_forecast_from_some_minutes_is_told_as_too_little_history_and_not_as_a_time() -> None:
    found = findings()
    young = replace(
        found,
        disks=tuple(replace(d, history_s=720.0, full_in_s=(20.0, 56.0, 90.0)) for d in found.disks),
    )
    made = page(skewed(), young)

    assert "6 of 6 disks have too little history yet: forecasts need at least 3 h" in made
    assert made.count("too little history yet (12 min)") == 6
    assert "56 s" not in made
    assert report_charts.until_full([]) not in made
    _, result = plan.plan(skewed(), young)
    assert result.proposal is not None
    assert result.proposal.spec.forecast is None
    old = replace(
        young, disks=tuple(replace(d, history_s=3 * 3600.0) if d.broker else d for d in young.disks)
    )
    assert "56 s" in page(skewed(), old)
    assert page(skewed(), old).count("too little history yet (12 min)") == 2


def test_the_scale_of_forecasts_begins_before_what_is_full_first() -> None:
    def scale(seconds: float) -> str:
        disk = replace(findings().disks[0], full_in_s=(seconds / 2, seconds, 4 * seconds))
        return report_charts.until_full([disk])

    assert "10 min" in scale(1200.0)
    assert ">60 s<" not in scale(1200.0)
    assert ">60 s<" in scale(5.0)
    assert "10 min" not in scale(86400.0)
    assert "60 min" in scale(86400.0)


def test_without_history_and_without_a_plan_there_is_a_page_all_the_same() -> None:
    assert "There are no samples yet" in page(skewed(), None)
    look = skewed()
    refused = page(replace(look, kafka=replace(look.kafka, partitions=None)), findings())
    assert "ns/demo: NoPlan" in refused
    assert "Forecast per disk" in refused


def test_the_same_input_gives_the_same_page() -> None:
    assert page(skewed(), findings()) == page(skewed(), findings())


def test_findings_become_history() -> None:
    history = plan.history_of(findings())
    assert history.slow == {(1, names.log_dir("disk1"))}
    assert len(history.topic) == 36
    assert history.disks[0].full_in == (2e5, 2.8e5, float("inf"))
    reading, result = plan.plan(skewed(), findings())
    assert reading.slow == history.slow
    assert result.proposal is not None
    assert result.proposal.spec.forecast is not None
    assert result.proposal.spec.forecast.first_full_disk == f"0:{names.log_dir('disk0')}"

"""One verdict from all who say something of a disk, and what it calls for."""

from typing import Any

import pytest

from spindle.disks.correlated_failures import limit, may_act_on_failures
from spindle.disks.health import AGENT, KAFKA, NOBODY, PREFLIGHT, UNKNOWN, AgentReport, Health, health
from spindle.disks.remedy import MOST_RESTARTS, RecoveryTimers, Remedy, remedy
from spindle.model import disk_facts

NOW = 10_000.0
GOOD = AgentReport(verdict="Healthy", since=100.0, content="ours", fs_uuid="u", fresh=True)
HUNG = AgentReport(
    verdict="Failed", since=9_990.0, reason="IOHung", message="m", content="unknown", fresh=True
)


def silent(said: AgentReport) -> AgentReport:
    return AgentReport(verdict=said.verdict, since=said.since, reason=said.reason, content=said.content)


def merged(said: AgentReport | None, kafka_error: int | None, **more: Any) -> Health:
    return health(**{"now": NOW, "mode": disk_facts.ACTIVE, "said": said, "kafka_error": kafka_error, **more})


@pytest.mark.parametrize(
    ("said", "kafka", "verdict", "reason", "source", "fresh"),
    [
        pytest.param(GOOD, 0, "Healthy", "", AGENT, True, id="all-well"),
        pytest.param(GOOD, None, "Healthy", "", AGENT, True, id="kafka-down"),
        pytest.param(HUNG, 0, "Failed", "IOHung", AGENT, True, id="kafka-does-not-notice"),
        pytest.param(HUNG, 56, "Failed", "IOHung", AGENT, True, id="both-say-so"),
        pytest.param(GOOD, 56, "Failed", "LogDirOffline", KAFKA, True, id="kafka-first"),
        pytest.param(
            AgentReport(verdict="Suspect", since=1.0, reason="Full", fresh=True),
            56,
            "Failed",
            "OfflineFull",
            KAFKA,
            True,
            id="full",
        ),
        pytest.param(
            AgentReport(verdict="Failed", since=1.0, reason="LogDirOffline", fresh=True),
            0,
            "Suspect",
            "LogDirOffline",
            KAFKA,
            True,
            id="agent-behind",
        ),
        pytest.param(silent(GOOD), 0, "Healthy", "", KAFKA, True, id="silent-kafka-online"),
        pytest.param(silent(GOOD), 56, "Failed", "LogDirOffline", KAFKA, True, id="silent-kafka-offline"),
        pytest.param(silent(GOOD), None, "Healthy", "", AGENT, False, id="silent-kafka-away"),
        pytest.param(silent(HUNG), None, "Failed", "IOHung", AGENT, False, id="silent-and-hung"),
        pytest.param(silent(HUNG), 0, "Failed", "IOHung", AGENT, False, id="silent-and-hung-kafka-online"),
        pytest.param(silent(HUNG), 56, "Failed", "LogDirOffline", KAFKA, True, id="silent-and-dead"),
        pytest.param(None, 0, "Healthy", "", KAFKA, True, id="no-agent"),
        pytest.param(None, 56, "Failed", "LogDirOffline", KAFKA, True, id="no-agent-offline"),
        pytest.param(None, None, UNKNOWN, "", NOBODY, False, id="nobody"),
        pytest.param(None, 31, UNKNOWN, "", NOBODY, False, id="another-error-says-nothing"),
    ],
)
def test_merged(
    said: AgentReport | None, kafka: int | None, verdict: str, reason: str, source: str, *, fresh: bool
) -> None:
    made = merged(said, kafka)
    assert (made.verdict, made.reason, made.source, made.fresh) == (verdict, reason, source, fresh)


@pytest.mark.parametrize(
    ("state", "verdict", "content"),
    [
        pytest.param("ours", "Healthy", "ours", id="ours"),
        pytest.param("blank", "Healthy", "blank", id="blank"),
        pytest.param("foreign", "Swapped", "foreign", id="foreign"),
        pytest.param("not-mounted", "Missing", "unknown", id="missing"),
        pytest.param("dead", "Failed", "unknown", id="dead"),
        pytest.param("readonly", "Failed", "unknown", id="readonly"),
        pytest.param("placeholder", UNKNOWN, "unknown", id="placeholder"),
    ],
)
def test_preflight_speaks_where_nobody_else_does(state: str, verdict: str, content: str) -> None:
    inspected = {"state": state, "fsUuid": "u", "problem": "p"}
    made = merged(None, None, inspected=inspected)
    assert (made.verdict, made.content, made.fs_uuid) == (verdict, content, "u")
    if verdict != UNKNOWN:
        assert made.source == PREFLIGHT
    assert merged(GOOD, None, inspected=inspected).source == AGENT


def test_kafka_says_nothing_of_a_placeholder() -> None:
    assert merged(GOOD, 56, mode=disk_facts.PLACEHOLDER).verdict == "Healthy"
    assert merged(None, 56, mode=disk_facts.PLACEHOLDER).verdict == UNKNOWN
    assert merged(None, 56, mode=disk_facts.ABSENT).verdict == UNKNOWN


def test_kafkas_word_has_the_age_that_is_on_record() -> None:
    assert merged(None, 56, bad_since=9_000.0).since == 9_000.0
    assert merged(None, 56).since == NOW
    assert merged(HUNG, 56, bad_since=9_000.0).since == HUNG.since


def test_only_what_is_fresh_is_sure() -> None:
    assert merged(HUNG, None).surely_bad
    assert merged(silent(HUNG), None).bad
    assert not merged(silent(HUNG), None).surely_bad
    assert not merged(silent(GOOD), None).well
    assert merged(GOOD, None).well
    assert not merged(HUNG, None).well


def test_entries_of_the_status_are_read() -> None:
    entry = {"name": "disk0", "verdict": "Failed", "reason": "IOHung", "content": "ours", "fsUuid": "u"}
    said = AgentReport.parse(entry, 7.0, fresh=True)
    assert said == AgentReport(
        verdict="Failed", since=7.0, reason="IOHung", content="ours", fs_uuid="u", fresh=True, message=""
    )
    assert AgentReport.parse({}, 0.0, fresh=False).verdict == UNKNOWN


def bad(reason: str, age: float, *, fresh: bool = True) -> Health:
    return Health(verdict="Failed", reason=reason, since=NOW - age, fresh=fresh)


@pytest.mark.parametrize(
    ("what", "patience", "wanted"),
    [
        pytest.param(bad("ProbeError", 0), RecoveryTimers(agent=True), Remedy.EVACUATE, id="dead"),
        pytest.param(bad("IOHung", 0, fresh=False), RecoveryTimers(agent=False), Remedy.NOTHING, id="stale"),
        pytest.param(merged(GOOD, 0), RecoveryTimers(agent=True), Remedy.NOTHING, id="healthy"),
        pytest.param(bad("LogDirOffline", 29), RecoveryTimers(agent=True), Remedy.WAIT, id="wait"),
        pytest.param(bad("LogDirOffline", 30), RecoveryTimers(agent=True), Remedy.RESTART, id="restart"),
        pytest.param(
            bad("LogDirOffline", 0),
            RecoveryTimers(agent=True, restart_count=MOST_RESTARTS),
            Remedy.EVACUATE,
            id="enough",
        ),
        pytest.param(bad("LogDirOffline", 59), RecoveryTimers(agent=False), Remedy.WAIT, id="unseen-wait"),
        pytest.param(bad("LogDirOffline", 60), RecoveryTimers(agent=False), Remedy.EVACUATE, id="unseen"),
        pytest.param(bad("OfflineFull", 599), RecoveryTimers(agent=True), Remedy.WAIT, id="full"),
        pytest.param(
            bad("OfflineFull", 600), RecoveryTimers(agent=True), Remedy.EVACUATE, id="full-for-long"
        ),
    ],
)
def test_remedy(what: Health, patience: RecoveryTimers, wanted: Remedy) -> None:
    assert remedy(what, NOW, patience) is wanted


@pytest.mark.parametrize(
    ("disks", "share", "most"),
    [(6, 0.1, 2), (20, 0.1, 2), (30, 0.1, 3), (70, 0.1, 7), (100, 0.29, 29), (100, 0.0, 2), (100, 1.0, 100)],
)
def test_limit(disks: int, share: float, most: int) -> None:
    assert limit(disks, share) == most


def test_many_at_once_stop_what_is_automatic() -> None:
    together = {(0, "disk0"): NOW - 1, (1, "disk0"): NOW - 500, (2, "disk1"): NOW + 3}
    refusal = may_act_on_failures(together, 6, NOW)
    assert refusal is not None
    assert (refusal.rule, refusal.reason) == (9, "CorrelatedDiskFailures")
    assert refusal.objects == ("0/disk0", "1/disk0", "2/disk1")
    assert "3 disks of 3 brokers" in refusal.message
    assert may_act_on_failures(together, 30, NOW) is None
    assert may_act_on_failures(together, 6, NOW + 101) is None


def test_all_disks_of_two_brokers_are_no_correlated_failures() -> None:
    together = {(broker, f"disk{n}"): NOW for broker in (0, 1) for n in range(12)}
    assert may_act_on_failures(together, 72, NOW, 0.01) is None

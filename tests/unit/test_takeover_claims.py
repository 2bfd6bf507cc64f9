"""Whether a volume may get another claim, whatever others did since the take-over was planned."""

from typing import Any

import pytest

from spindle.takeover.claims import ClaimChange, may_change, may_have_moved
from spindle.takeover.plan import DiskPlan

OLD, NEW = "data-0-demo-broker-0", "data-disk0-demo-0"
DISK = DiskPlan(OLD, NEW, "pv", "kafka-log0", "disk0", "1Gi")
CHANGE = ClaimChange(DISK, OLD, {"metadata": {"name": NEW, "namespace": "kafka"}})


def claim(volume: str = "pv", *, leaving: bool = False) -> dict[str, Any]:
    meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    return {"metadata": meta, "spec": {"volumeName": volume} if volume else {}}


def volumes(name: str | None = OLD, namespace: str = "kafka") -> dict[str, Any]:
    return {"pv": {"spec": {"claimRef": {"namespace": namespace, "name": name}} if name else {}}}


@pytest.mark.parametrize(
    ("claims", "there", "done"),
    [
        pytest.param({OLD: claim()}, volumes(), False, id="as planned"),
        pytest.param({OLD: claim(leaving=True)}, volumes(), False, id="interrupted while it is deleted"),
        pytest.param({}, volumes(), False, id="interrupted before it is reserved"),
        pytest.param({}, volumes(NEW), False, id="interrupted before the claim follows"),
        pytest.param({}, volumes(None), False, id="somebody removed its claimRef"),
        pytest.param({NEW: claim()}, volumes(NEW), True, id="done"),
        pytest.param({NEW: claim(leaving=True)}, volumes(NEW), False, id="being deleted by somebody"),
        pytest.param({NEW: claim(), OLD: claim()}, volumes(NEW), False, id="both"),
    ],
)
def test_an_interrupted_change_continues(claims: dict[str, Any], there: dict[str, Any], done: bool) -> None:
    found = may_change(CHANGE, claims, there)
    assert (found.refusal, found.done) == ("", done)


@pytest.mark.parametrize(
    ("claims", "there", "says"),
    [
        pytest.param({OLD: claim()}, {}, "volume pv of claim data-0-demo-broker-0 does not exist", id="lost"),
        pytest.param({OLD: claim("other")}, volumes(), "has volume other, but had pv", id="replaced"),
        pytest.param({OLD: claim("")}, volumes(), "has no volume", id="created again"),
        pytest.param({NEW: claim("other")}, volumes(), f"claim {NEW} has volume other", id="a namesake"),
        pytest.param({}, volumes("app"), "reserved for claim kafka/app", id="another claim"),
        pytest.param({}, volumes(OLD, "apps"), f"reserved for claim apps/{OLD}", id="another namespace"),
    ],
)
def test_what_has_another_claim_or_volume_than_planned_is_left_alone(
    claims: dict[str, Any], there: dict[str, Any], says: str
) -> None:
    assert says in may_change(CHANGE, claims, there).refusal


@pytest.mark.parametrize(
    ("claims", "there", "moved"),
    [
        pytest.param({OLD: claim()}, volumes(), False, id="never"),
        pytest.param({NEW: claim()}, volumes(NEW), True, id="has it"),
        pytest.param({}, volumes(NEW), True, id="had it"),
        pytest.param({OLD: claim()}, {}, False, id="lost"),
    ],
)
def test_a_log_dir_may_have_been_renamed_once_its_volume_had_the_new_claim(
    claims: dict[str, Any], there: dict[str, Any], moved: bool
) -> None:
    assert may_have_moved(DISK, claims, there) == moved

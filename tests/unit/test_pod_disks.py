"""The disks of a pod, from an annotation that a person may have edited."""

import json
from typing import Any

import pytest

from spindle.api import names
from spindle.model.pod_disks import another_in, mode_in

DISK0: dict[str, Any] = {"name": "disk0", "mode": "Absent", "directoryId": "a"}
DISK1: dict[str, Any] = {"name": "disk1", "mode": "Active", "directoryId": "b"}


def pod(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "demo-broker-0", "annotations": {names.ANN_DISKS: text}}}


def test_a_disk_is_found_and_a_replaced_one_is_another() -> None:
    made = pod(json.dumps([DISK0, DISK1]))
    assert (mode_in(made, "disk0"), mode_in(made, "disk1"), mode_in(made, "disk2")) == (
        "Absent",
        "Active",
        None,
    )
    assert another_in(made, "disk1", "c")
    assert not another_in(made, "disk1", "b")
    assert not another_in(made, "disk0", "c"), "it is not mounted"
    assert mode_in(None, "disk0") is None
    assert mode_in({"metadata": {"name": "x"}}, "disk0") is None


@pytest.mark.parametrize("entry", [{}, None, 1, "x", [], {"name": []}, {"name": None}])
def test_an_entry_that_cannot_be_read_hides_no_other(entry: object) -> None:
    made = pod(json.dumps([entry, DISK0, DISK1]))
    assert mode_in(made, "disk0") == "Absent"
    assert another_in(made, "disk1", "c")
    assert mode_in(made, "disk2") == "Active", "unknown counts as mounted"


@pytest.mark.parametrize("text", ["{", "null", "1", '{"disk0": {}}', '"disk0"', "[" * 100_000])
def test_a_text_that_cannot_be_read_counts_as_mounted(text: str) -> None:
    assert mode_in(pod(text), "disk0") == "Active"
    assert not another_in(pod(text), "disk0", "a")

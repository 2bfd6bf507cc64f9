import uuid

import pytest

from spindle.disks.report import LIMIT, parse, render


def entry(index: int, state: str, problem: str | None = None) -> dict[str, object]:
    return {
        "name": f"disk{index}",
        "state": state,
        "fsUuid": str(uuid.uuid5(uuid.NAMESPACE_URL, str(index))),
        "fsType": "xfs",
        "device": f"7:{index}",
        "mount": f"/dev/loop{index}[/volumes/{index}]",
        "totalBytes": 10**13 + index,
        "usedBytes": 10**12 + index,
        "identity": {"clusterId": "c" * 22, "nodeId": 7, "disk": f"disk{index}", "directoryId": "d" * 22},
        "problem": problem,
    }


def test_few_disks_are_reported_in_full() -> None:
    entries = [entry(index, "ours") for index in range(3)]
    text = render(entries)
    assert text.startswith('{"disks":[')
    assert list(parse(text).values()) == entries


def test_whoever_reads_a_report_has_entries_of_his_own() -> None:
    text = render([entry(0, "ours")])
    parse(text)["disk0"]["state"] = "blank"
    assert parse(text)["disk0"]["state"] == "ours"


@pytest.mark.parametrize("state", ["ours", "blank", "foreign"])
@pytest.mark.parametrize("count", [10, 20, 40, 64])
def test_no_disk_is_left_out_of_a_long_report(count: int, state: str) -> None:
    problem = (
        None if state == "ours" else "a sentence that is rather long and says what to do about it all, " * 4
    )
    entries = [entry(index, state, problem) for index in range(count)]
    text = render(entries)
    assert len(text.encode()) <= LIMIT
    read = parse(text)
    assert [(d["name"], d["state"], d["fsUuid"]) for d in read.values()] == [
        (e["name"], e["state"], e["fsUuid"]) for e in entries
    ]


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "{}", '{"disks": 1}', '{"zip": "x"}', '{"disks":[{}]}']
)
def test_text_that_is_no_report(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)

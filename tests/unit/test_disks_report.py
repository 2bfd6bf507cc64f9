import base64
import json
import uuid
import zlib

import pytest

from spindle.model.inspection import LIMIT, parse, parse_log_dirs, parse_nonce, render


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


def zipped(text: str) -> str:
    return json.dumps({"zip": base64.b64encode(zlib.compress(text.encode(), 9)).decode()})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"disks": 1}',
        '{"zip": "x"}',
        '{"disks":[{}]}',
        # What only a compromised kubelet writes into a pod's status.
        zipped("[" * 1_000_000),
        '{"disks":[{"name":"disk0","state":["ours"]}]}',
        '{"disks":[{"name":"disk0","state":"ours","replicas":"all"}]}',
        '{"disks":[{"name":"disk0","totalBytes":%s,"usedBytes":1}]}' % ("9" * 4000),
        '{"disks":[{"name":"disk0","totalBytes":-1}]}',
    ],
)
def test_text_that_is_no_report(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_a_report_nested_too_deep_has_no_list_and_no_nonce() -> None:
    text = zipped("[" * 1_000_000)
    assert not parse_log_dirs(text)
    assert parse_nonce(text) is None


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(b" " * 2**21, id="long"),
        pytest.param(b'{"disks": [' + b"[]," * 20000 + b"[]]}", id="of many values"),
    ],
)
def test_a_report_that_is_larger_without_compression_than_any_is_not_kept(report: bytes) -> None:
    """A node writes the status of its pods: what four kilobytes of it can become would take the memory of the operator."""
    text = json.dumps({"zip": base64.b64encode(zlib.compress(report, 9)).decode()})
    assert len(text) <= LIMIT
    with pytest.raises(ValueError, match="more than"):
        parse(text)
    assert parse_nonce(text) is None
    assert not parse_log_dirs(text)

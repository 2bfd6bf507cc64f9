from dataclasses import replace

import pytest

from spindle.disks.judge import PreflightVerdict, content, judge, may_write_identity, unused
from spindle.model.disk_facts import ABSENT, ACTIVE, PLACEHOLDER, Clearance, Expected, Found, InspectionId
from spindle.model.disk_identity import Identity, MetaProperties

F = "0a1b2c3d-0000-4000-8000-00000000000f"
G = "0a1b2c3d-0000-4000-8000-000000000010"
EXPECTED = Expected(cluster_id="c", node_id=0, disk="disk0", directory_id="d", fs_uuid=F)
CONTROLLER = replace(EXPECTED, node_id=9000, disk="metadata", controller=True)
IDENTITY = Identity("c", 0, "disk0", "d")
META = MetaProperties("c", 0, "d")
OURS = Found(mounted=True, writable=True, fs_uuid=F, identity=IDENTITY, meta=META, partitions=True)
BLANK = Found(mounted=True, writable=True, fs_uuid=G)


@pytest.mark.parametrize(
    ("expected", "found", "verdict", "state"),
    [
        pytest.param(EXPECTED, OURS, PreflightVerdict.USE, "ours", id="ours"),
        pytest.param(
            replace(EXPECTED, fs_uuid=None),
            OURS,
            PreflightVerdict.USE,
            "ours",
            id="recorded-while-the-pod-waited",
        ),
        pytest.param(
            EXPECTED,
            replace(OURS, identity=None),
            PreflightVerdict.USE,
            "ours",
            id="killed-before-the-identity",
        ),
        pytest.param(
            EXPECTED, replace(OURS, fs_uuid=None), PreflightVerdict.USE, "ours", id="file-system-without-uuid"
        ),
        pytest.param(
            EXPECTED,
            replace(OURS, fs_uuid="fsid-77"),
            PreflightVerdict.USE,
            "ours",
            id="uuid-not-to-be-had-today",
        ),
        pytest.param(
            replace(EXPECTED, fs_uuid="fsid-77"),
            OURS,
            PreflightVerdict.USE,
            "ours",
            id="uuid-since-a-newer-kernel",
        ),
        pytest.param(EXPECTED, BLANK, PreflightVerdict.NEEDS_CLEARANCE, "blank", id="blank"),
        pytest.param(
            replace(EXPECTED, mode=PLACEHOLDER),
            BLANK,
            PreflightVerdict.PLACEHOLDER,
            "placeholder",
            id="placeholder",
        ),
        pytest.param(
            EXPECTED, Found(mounted=False), PreflightVerdict.REFUSE, "not-mounted", id="empty-folder"
        ),
        pytest.param(
            replace(EXPECTED, shared_filesystem=True),
            replace(BLANK, mounted=False),
            PreflightVerdict.NEEDS_CLEARANCE,
            "blank",
            id="folder-that-is-allowed",
        ),
        pytest.param(EXPECTED, Found(mounted=True, error="EIO"), PreflightVerdict.OFFLINE, "dead", id="dead"),
        pytest.param(
            CONTROLLER,
            Found(mounted=True, error="EIO"),
            PreflightVerdict.REFUSE,
            "dead",
            id="dead-controller",
        ),
        pytest.param(
            EXPECTED, replace(OURS, readonly=True), PreflightVerdict.OFFLINE, "readonly", id="readonly"
        ),
        pytest.param(
            EXPECTED, replace(OURS, writable=False), PreflightVerdict.OFFLINE, "readonly", id="not-writable"
        ),
        pytest.param(
            EXPECTED, replace(BLANK, readonly=True), PreflightVerdict.REFUSE, "readonly", id="blank-readonly"
        ),
        pytest.param(
            EXPECTED,
            replace(BLANK, writable=False),
            PreflightVerdict.REFUSE,
            "readonly",
            id="blank-not-writable",
        ),
        pytest.param(
            EXPECTED,
            replace(BLANK, strangers=("photos",)),
            PreflightVerdict.REFUSE,
            "foreign",
            id="somebodys-data",
        ),
        pytest.param(
            EXPECTED, replace(BLANK, partitions=True), PreflightVerdict.REFUSE, "foreign", id="logs-of-nobody"
        ),
        pytest.param(
            EXPECTED, replace(OURS, meta=None), PreflightVerdict.REFUSE, "foreign", id="lost-meta-properties"
        ),
        pytest.param(
            EXPECTED,
            replace(OURS, meta=None, partitions=False),
            PreflightVerdict.REFUSE,
            "foreign",
            id="emptied-log-dir",
        ),
        pytest.param(EXPECTED, replace(OURS, garbled="x"), PreflightVerdict.REFUSE, "foreign", id="garbled"),
        pytest.param(EXPECTED, replace(OURS, fs_uuid=G), PreflightVerdict.REFUSE, "foreign", id="copy"),
        pytest.param(
            CONTROLLER,
            replace(BLANK, pending=CONTROLLER.identity, partitions=True),
            PreflightVerdict.RESUME,
            "ours",
            id="tool-was-killed",
        ),
        pytest.param(
            EXPECTED,
            replace(BLANK, pending=IDENTITY, partitions=True),
            PreflightVerdict.REFUSE,
            "foreign",
            id="no-tool",
        ),
    ],
)
def test_verdict(expected: Expected, found: Found, verdict: PreflightVerdict, state: str) -> None:
    judgement = judge(expected, found)
    assert (judgement.verdict, judgement.state) == (verdict, state)
    assert bool(judgement.reason) == (
        verdict not in {PreflightVerdict.USE, PreflightVerdict.PLACEHOLDER, PreflightVerdict.RESUME}
    )
    assert bool(judgement.reason) == bool(judgement.way_out)


@pytest.mark.parametrize("expected", [EXPECTED, CONTROLLER], ids=["broker", "controller"])
@pytest.mark.parametrize(
    "changes",
    [
        {"cluster_id": "other"},
        {"node_id": 5},
        {"directory_id": "retired"},
        {"disk": "disk7"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_identity_mix_ups_are_refused_whatever_else_is_there(
    expected: Expected, changes: dict[str, object]
) -> None:
    wrong = replace(expected.identity, **changes)  # type: ignore[arg-type]
    right = expected.identity
    meta = MetaProperties(right.cluster_id, right.node_id, right.directory_id)
    found = [
        replace(BLANK, fs_uuid=F, identity=wrong, meta=meta),
        replace(BLANK, fs_uuid=F, identity=wrong),
        replace(BLANK, fs_uuid=F, pending=wrong),
    ]
    if "disk" not in changes:
        wrong_meta = MetaProperties(wrong.cluster_id, wrong.node_id, wrong.directory_id)
        found += [
            replace(BLANK, fs_uuid=F, identity=right, meta=wrong_meta),
            replace(BLANK, meta=wrong_meta),
        ]
    for seen in found:
        judgement = judge(expected, seen)
        assert judgement.verdict is PreflightVerdict.REFUSE
        assert judgement.state == "foreign"
        assert str(next(iter(changes.values()))) in judgement.reason


LOOK = InspectionId(nonce="n", pod_uid="u")
CLEARANCE = Clearance(disk="disk0", directory_id="d", fs_uuid=G, pv_uid="p", nonce="n", pod_uid="u")


@pytest.mark.parametrize(
    ("clearance", "allowed"),
    [
        pytest.param(CLEARANCE, True, id="fits"),
        pytest.param(replace(CLEARANCE, nonce="m"), False, id="another-look"),
        pytest.param(replace(CLEARANCE, pod_uid="v"), False, id="another-pod"),
        pytest.param(replace(CLEARANCE, nonce=None, pod_uid=None), False, id="no-look"),
        pytest.param(replace(CLEARANCE, fs_uuid="h"), False, id="another-file-system"),
        pytest.param(replace(CLEARANCE, fs_uuid=None), False, id="no-file-system"),
        pytest.param(replace(CLEARANCE, directory_id="e"), False, id="another-directory-id"),
        pytest.param(replace(CLEARANCE, disk="disk1"), False, id="another-disk"),
    ],
)
def test_clearance(clearance: Clearance, allowed: bool) -> None:
    assert may_write_identity(EXPECTED, BLANK, [clearance], LOOK) is allowed


def test_clearance_is_used_once() -> None:
    assert unused([CLEARANCE], {"d"}) == []
    assert unused([CLEARANCE], {"e"}) == [CLEARANCE]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(OURS, id="whole"),
        pytest.param(replace(OURS, identity=None), id="only-meta-properties"),
        pytest.param(replace(OURS, meta=None), id="only-identity"),
        pytest.param(replace(OURS, readonly=True), id="readonly"),
    ],
)
def test_a_retired_disk_is_foreign_and_called_so(seen: Found) -> None:
    slot = replace(EXPECTED, directory_id="e", fs_uuid=None, retired=("x", "d"))
    for judgement in (judge(slot, seen), content(slot, seen)):
        assert judgement.verdict is PreflightVerdict.REFUSE
        assert judgement.state == "foreign"
        assert "was evacuated (directory id d)" in judgement.reason
        assert "new file system" in judgement.way_out


def test_another_brokers_disk_is_not_called_retired() -> None:
    slot = replace(EXPECTED, node_id=1, directory_id="e", retired=("d",))
    assert "another node, 0" in judge(slot, OURS).reason


@pytest.mark.parametrize("mode", [ACTIVE, PLACEHOLDER, ABSENT])
@pytest.mark.parametrize(
    ("found", "what"),
    [
        pytest.param(OURS, "ours", id="ours"),
        pytest.param(replace(OURS, readonly=True), "ours", id="ours-readonly"),
        pytest.param(replace(OURS, writable=False), "ours", id="ours-not-writable"),
        pytest.param(BLANK, "blank", id="blank"),
        pytest.param(replace(BLANK, readonly=True), "blank", id="blank-readonly"),
        pytest.param(replace(BLANK, strangers=("photos",)), "foreign", id="somebodys"),
        pytest.param(replace(OURS, fs_uuid=G), "foreign", id="copy"),
        pytest.param(Found(mounted=False), "unknown", id="not-mounted"),
        pytest.param(Found(mounted=True, error="EIO"), "unknown", id="dead"),
    ],
)
def test_content(found: Found, what: str, mode: str) -> None:
    assert content(replace(EXPECTED, mode=mode), found).state == what

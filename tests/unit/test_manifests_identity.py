"""The birth record: there and back, and what makes it unusable."""

import json
from typing import Any

import pytest

from spindle.model.cluster_identity import (
    ConfiguredVoter,
    IdentityError,
    NodeIdentity,
    identity_map,
    parse_identity,
    parse_voters,
    voters_text,
)

A, B, C = "4L6g3nShT-eMCtK--X86sw", "JVxZHnT9SEmo7qMPv1p0Yw", "MkU3OEVBNTcwNTJENDM2Qg"
WHOLE = NodeIdentity(
    A, (ConfiguredVoter(9000, B), ConfiguredVoter(9001, C)), {B: {"claim": "x", "pvUid": "p", "fsUuid": "f"}}
)


def record(**data: Any) -> dict[str, Any]:
    return {"data": {**identity_map("demo", "kafka", WHOLE)["data"], **data}}


def test_there_and_back() -> None:
    made = identity_map("demo", "kafka", WHOLE)
    assert parse_identity(made) == WHOLE
    assert made["metadata"]["name"] == "demo-identity"
    assert "ownerReferences" not in made["metadata"]


def test_other_keys_are_left_alone() -> None:
    assert parse_identity(record(note="by hand")) == WHOLE


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({}, "clusterId is missing"),
        ({"data": None}, "clusterId is missing"),
        (record(clusterId=""), "clusterId is missing"),
        (record(clusterId="short"), "clusterId 'short' is not a valid id"),
        (record(voters="["), "voters is not a list"),
        (record(voters="7"), "voters is not a list"),
        (record(voters="[]"), "voters has no voter"),
        (record(voters=json.dumps([{"id": "9000", "directoryId": B}])), "voters is not a list"),
        (record(voters=json.dumps([{"id": 9000}])), "voters is not a list"),
        (
            record(voters=json.dumps([{"id": 9000, "directoryId": "x"}])),
            "voters has an invalid directoryId: 'x'",
        ),
        (
            record(voters=json.dumps([{"id": 9000, "directoryId": 7}])),
            "voters has an invalid directoryId",
        ),
        (
            record(voters=json.dumps([{"id": 1, "directoryId": B}, {"id": 1, "directoryId": C}])),
            "lists a voter twice",
        ),
        (record(clearances=None), "clearances is missing"),
        (record(clearances="nonsense"), "clearances is not JSON"),
        (record(clearances="[]"), "clearances is not an object"),
        (record(clearances=json.dumps({B: {"pvUid": 7}})), "clearances is not an object"),
    ],
)
def test_half_a_record_is_none(broken: dict[str, Any], said: str) -> None:
    found = parse_identity(broken)
    assert isinstance(found, IdentityError)
    assert said in str(found)


def test_all_that_is_wrong_is_told() -> None:
    found = parse_identity({"data": {}})
    assert isinstance(found, IdentityError)
    assert len(found.problems) == 3


def test_voters_are_always_written_the_same() -> None:
    assert voters_text((ConfiguredVoter(2, B), ConfiguredVoter(1, C))) == voters_text(
        (ConfiguredVoter(1, C), ConfiguredVoter(2, B))
    )
    assert parse_voters(voters_text((ConfiguredVoter(2, B), ConfiguredVoter(1, C)))) == (
        ConfiguredVoter(1, C),
        ConfiguredVoter(2, B),
    )

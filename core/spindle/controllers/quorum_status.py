"""``status.quorum``: the KRaft controllers as Kafka describes them (DescribeQuorum, KIP-836)."""

from typing import Any

from spindle.api import names
from spindle.model.view import Quorum, Voter

_MOST = 16  # the CRD allows no more; a quorum that Spindle manages has at most five


def quorum_status(quorum: Quorum | None) -> dict[str, Any] | None:
    """``status.quorum`` of the KafkaCluster; None while the quorum is unknown or has no leader."""
    if quorum is None or quorum.leader < 0:
        return None
    controllers = [each for each in quorum.observers if each.id >= names.FIRST_CONTROLLER_ID]
    return {
        "leader": quorum.leader,
        "voters": [_member(voter) for voter in _one_of_each(quorum.voters)],
        "observers": [_member(observer) for observer in _one_of_each(controllers)],
    }


def _one_of_each(replicas: tuple[Voter, ...] | list[Voter]) -> list[Voter]:
    """One entry per id: a controller with a new disk is listed by its old directory id, too, for a while; the one that keeps up counts."""
    found = {each.id: each for each in sorted(replicas, key=lambda each: each.caught_up is True)}
    return [found[node_id] for node_id in sorted(found)][:_MOST]


def _member(voter: Voter) -> dict[str, Any]:
    entry = {
        "id": voter.id,
        "directoryId": voter.directory_id,
        "caughtUp": voter.caught_up,
        "lag": 0 if voter.caught_up else _to_one_digit(voter.lag),
    }
    return {key: value for key, value in entry.items() if value is not None}


def _to_one_digit(lag: int | None) -> int | None:
    """The lag with one significant digit, so that the status is not rewritten with every record appended."""
    if lag is None:
        return None
    digits: int = 10 ** (len(str(lag)) - 1)
    return lag // digits * digits

"""What a user sees of the controllers' quorum."""

from typing import Any

from spindle.cluster import names
from spindle.cluster.view import Quorum, Voter

_MOST = 16  # the definition allows no more; a quorum that Spindle makes has five


def quorum_status(quorum: Quorum | None) -> dict[str, Any] | None:
    """``status.quorum`` of the KafkaCluster; None while nobody can tell."""
    if quorum is None or quorum.leader < 0:
        return None
    controllers = [each for each in quorum.observers if each.id >= names.FIRST_CONTROLLER_ID]
    return {
        "leader": quorum.leader,
        "voters": [_member(voter) for voter in _one_of_each(quorum.voters)],
        "observers": [_member(observer) for observer in _one_of_each(controllers)],
    }


def _one_of_each(replicas: tuple[Voter, ...] | list[Voter]) -> list[Voter]:
    """One for each id: a controller that began anew is known by its old disk, too, for a while; the one that keeps up counts."""
    found = {each.id: each for each in sorted(replicas, key=lambda each: each.caught_up is True)}
    return [found[node_id] for node_id in sorted(found)][:_MOST]


def _member(voter: Voter) -> dict[str, Any]:
    told = {
        "id": voter.id,
        "directoryId": voter.directory_id,
        "caughtUp": voter.caught_up,
        "lag": 0 if voter.caught_up else _to_one_digit(voter.lag),
    }
    return {key: value for key, value in told.items() if value is not None}


def _to_one_digit(lag: int | None) -> int | None:
    """The size of a lag: the log grows all the time, and what is behind it is not written down anew with each record."""
    if lag is None:
        return None
    digits: int = 10 ** (len(str(lag)) - 1)
    return lag // digits * digits

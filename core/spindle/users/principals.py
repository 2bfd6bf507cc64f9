"""Who a KafkaUser is to Kafka. A name that was somebody else's before is given a generation: ``orders``, then ``orders_2``.

A KafkaUser's certificate stays good after it is deleted, so its principal is denied everything until that has ended, and whoever comes by
the same name meanwhile is another principal: neither do old certificates get the new one's rights, nor is the new one denied.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from spindle.cluster.rights import Right

LONGEST: Final = 64  # of a certificate's common name (ub-common-name of RFC 5280)
# No Kubernetes name has one, and brokers make a principal of common names with letters, digits and these three alone: . _ -
_MARK: Final = "_"
# Denied to a former principal. Of delegation tokens and other users' passwords nobody is given anything anyway.
EVERYTHING: Final = frozenset(
    {
        Right("topic", "*", "literal", "All", "*"),
        Right("group", "*", "literal", "All", "*"),
        Right("transactionalId", "*", "literal", "All", "*"),
        Right("cluster", "kafka-cluster", "literal", "All", "*"),
    }
)


def on_record(user: Mapping[str, Any]) -> str | None:
    """The principal that a KafkaUser has by its status, without ``User:``; None for none yet, or one that cannot be its own."""
    name = str(user["metadata"]["name"])
    told = str((user.get("status") or {}).get("principal") or "").removeprefix("User:")
    head, mark, generation = told.rpartition(_MARK)
    if told == name or (mark and head == name and generation.isdecimal()):
        return told
    return None


def principal_of(user: Mapping[str, Any], former: Collection[str]) -> str:
    """The principal that a KafkaUser has, or may have: the first generation of its name that was nobody's."""
    name = str(user["metadata"]["name"])
    generations = itertools.chain([name], (f"{name}{_MARK}{number}" for number in itertools.count(2)))
    return on_record(user) or next(each for each in generations if each not in former)


def former_on_record(status: Mapping[str, Any]) -> dict[str, str]:
    """Former principals by a KafkaCluster's status, and when the last certificate of each ends."""
    return {str(each["name"]): str(each["until"]) for each in status.get("formerUsers") or ()}


def to_ask(users: Iterable[Mapping[str, Any]], status: Mapping[str, Any]) -> list[str]:
    """Of which principals a pass has to know what Kafka says.

    Args:
        users: the KafkaUsers.
        status: of the KafkaCluster.
    """
    former = former_on_record(status)
    return sorted({principal_of(user, former) for user in users} | set(former))

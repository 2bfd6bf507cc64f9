"""The principal of a KafkaUser. A name that another KafkaUser had before gets a generation: ``orders``, then ``orders_2``.

The certificate of a deleted KafkaUser stays valid until it expires, so its principal is denied everything until then. A new KafkaUser with the
same name gets another principal meanwhile: the old certificate does not get its ACLs, and the new user is not denied.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from spindle.model.rights import Right
from spindle.security.principal_record import GENERATION_MARK, by_token, on_record

LONGEST: Final = 64  # maximum length of a certificate's common name (ub-common-name of RFC 5280)
# Denied to a former principal. Spindle never allows operations on delegation tokens and on the passwords of other users.
EVERYTHING: Final = frozenset(
    {
        Right("topic", "*", "literal", "All", "*"),
        Right("group", "*", "literal", "All", "*"),
        Right("transactionalId", "*", "literal", "All", "*"),
        Right("cluster", "kafka-cluster", "literal", "All", "*"),
    }
)


def principal_of(user: Mapping[str, Any], former: Collection[str]) -> str:
    """The present principal of a KafkaUser, or else the first generation of its name that no other user had. A token names one only."""
    if (named := by_token(user)) is not None:
        return named
    name = str(user["metadata"]["name"])
    generations = itertools.chain(
        [name], (f"{name}{GENERATION_MARK}{number}" for number in itertools.count(2))
    )
    return on_record(user) or next(each for each in generations if each not in former)


def former_on_record(status: Mapping[str, Any]) -> dict[str, str]:
    """Former principals in a KafkaCluster's status, and when the last certificate of each expires."""
    return {str(each["name"]): str(each["until"]) for each in status.get("formerUsers") or ()}


def principals_to_read(users: Iterable[Mapping[str, Any]], status: Mapping[str, Any]) -> list[str]:
    """The principals whose ACLs, quotas and credentials a pass must read from Kafka.

    Args:
        users: the KafkaUsers.
        status: of the KafkaCluster.
    """
    former = former_on_record(status)
    return sorted({principal_of(user, former) for user in users} | set(former))

"""What a user has in Kafka, and what to change of it. Ours is what is on record as ours; nothing else is taken away."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from spindle.api.user import KafkaUserSpec
from spindle.cluster.rights import Right, UserView
from spindle.users.wide import covers_own


@dataclass(frozen=True)
class Given:
    """A quota that Spindle set, or is about to set.

    Attributes:
        ours: values that are ours where they are found: the wanted one, and the one before while that is still in Kafka.
        before: what stood there by somebody else's hand; None for nothing.
    """

    ours: frozenset[float]
    before: float | None = None


@dataclass(frozen=True)
class UserRecord:
    """What was written down as given by Spindle, before it was given; `kept_out`: denied to write to Spindle's own topics."""

    rights: frozenset[Right] = frozenset()
    quotas: Mapping[str, Given] = field(default_factory=dict)
    password: bool = False
    kept_out: bool = False


@dataclass(frozen=True)
class RightsChange:
    """What is to be done in Kafka, and what is to be on record.

    Attributes:
        give, take: rights.
        quotas: by Kafka's names; None takes one away.
        record: as it should read before anything more is given.
        written: whether that is what stands there.
        keep_out: True denies it to write to Spindle's own topics, False no longer does; None leaves that as it is.
    """

    give: tuple[Right, ...]
    take: tuple[Right, ...]
    quotas: Mapping[str, float | None]
    record: UserRecord
    written: bool
    keep_out: bool | None = None

    @property
    def nothing(self) -> bool:
        """Whether all is as it should be."""
        return self.written and self.keep_out is None and not (self.give or self.take or self.quotas)


def wanted_rights(spec: KafkaUserSpec) -> frozenset[Right]:
    """The rights that a spec asks for, one by one."""
    return frozenset(
        Right(acl.resource, acl.name or "kafka-cluster", acl.pattern, operation, acl.host)
        for acl in spec.acls
        for operation in acl.operations
    )


def wanted_quotas(spec: KafkaUserSpec) -> dict[str, float]:
    """The quotas that a spec asks for, by Kafka's names."""
    quotas = spec.quotas
    given = {
        "producer_byte_rate": quotas.producer_bytes_per_second,
        "consumer_byte_rate": quotas.consumer_bytes_per_second,
        "request_percentage": quotas.request_percentage,
    }
    return {key: float(value) for key, value in given.items() if value is not None}


def change(
    rights: AbstractSet[Right],
    quotas: Mapping[str, float],
    record: UserRecord,
    view: UserView,
    *,
    password: bool,
) -> RightsChange:
    """From what is wanted, what is on record and what is there: what to do.

    A right is given only when it is on record already, so that it is known as ours wherever the giving is interrupted. One that is
    there and not on record was given by somebody else and stays. A quota is set likewise, and put back to what somebody else had
    set; one that is found at a value that is not ours was set by somebody since, and is left to them when it is asked for no more.

    Args:
        rights, quotas, password: what is wanted; nothing at all for a user that is being deleted.
        record: as it stands.
        view: what Kafka says.
    """
    missing = rights - view.rights
    kept = {right for right in record.rights if right in rights or right in view.rights}
    ours = frozenset(kept | missing)
    limits = {
        key: _given(value, record.quotas.get(key), view.quotas.get(key)) for key, value in quotas.items()
    }
    back = {
        key: given
        for key, given in record.quotas.items()
        if key not in quotas and _to_put_back(given, view.quotas.get(key))
    }
    kept_out = covers_own(rights)
    after = UserRecord(
        ours,
        {**limits, **back},
        password or (record.password and view.scram),
        kept_out or (record.kept_out and view.kept_out),
    )
    changed: dict[str, float | None] = {
        key: value
        for key, value in quotas.items()
        if record.quotas.get(key) == limits[key] and view.quotas.get(key) != value
    }
    changed |= {key: given.before for key, given in back.items()}
    return RightsChange(
        give=tuple(sorted(missing & record.rights)),
        take=tuple(sorted((record.rights - rights) & view.rights)),
        quotas=changed,
        record=after,
        written=after == record,
        keep_out=kept_out if record.kept_out and view.kept_out != kept_out else None,
    )


def _given(value: float, given: Given | None, live: float | None) -> Given:
    """What is to be on record of a quota that is wanted."""
    if given is None:
        return Given(frozenset({value}), live)
    if live in given.ours:
        return Given(frozenset({value, live}) if live is not None else frozenset({value}), given.before)
    # Somebody else changed it, or ours is not there yet: what stands there is what is to come back.
    return Given(frozenset({value}), live)


def _to_put_back(given: Given, live: float | None) -> bool:
    return live in given.ours and live != given.before


def read_record(status: Mapping[str, Any]) -> UserRecord:
    """The record in a KafkaUser's status."""
    return UserRecord(
        frozenset(
            Right(each["resource"], each["name"], each["pattern"], each["operation"], each["host"])
            for each in status.get("acls") or ()
        ),
        {
            str(each["name"]): Given(
                frozenset(float(value) for value in each["values"]),
                float(each["before"]) if each.get("before") is not None else None,
            )
            for each in status.get("quotas") or ()
        },
        bool(status.get("password")),
        bool(status.get("keptOut")),
    )


def write_record(record: UserRecord) -> dict[str, Any]:
    """A record as the fields of a KafkaUser's status."""
    written: dict[str, Any] = {}
    if record.rights:
        written["acls"] = [
            {
                "resource": right.resource,
                "name": right.name,
                "pattern": right.pattern,
                "operation": right.operation,
                "host": right.host,
            }
            for right in sorted(record.rights)
        ]
    if record.quotas:
        written["quotas"] = [
            {
                "name": key,
                "values": [repr(value) for value in sorted(given.ours)],
                **({} if given.before is None else {"before": repr(given.before)}),
            }
            for key, given in sorted(record.quotas.items())
        ]
    if record.password:
        written["password"] = True
    if record.kept_out:
        written["keptOut"] = True
    return written

"""A user's ACLs, quotas and password in Kafka, and the changes to them. Spindle removes only what its record lists as set by Spindle."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from spindle.api.user import KafkaUserSpec
from spindle.model.rights import Right, UserView
from spindle.users.wide import covers_own


@dataclass(frozen=True)
class RecordedQuota:
    """A quota that Spindle has set or is about to set.

    Attributes:
        ours: values that count as set by Spindle: the desired one, and the previous one while it is still in Kafka.
        before: the value that another client had set before; None for none.
    """

    ours: frozenset[float]
    before: float | None = None


@dataclass(frozen=True)
class UserRecord:
    """What Spindle has set, recorded before it is set; `kept_out`: a DENY of writes to Spindle's internal topics."""

    rights: frozenset[Right] = frozenset()
    quotas: Mapping[str, RecordedQuota] = field(default_factory=dict)
    password: bool = False
    kept_out: bool = False


@dataclass(frozen=True)
class RightsChange:
    """Changes in Kafka, and the record.

    Attributes:
        give, take: ACLs to add and to remove.
        quotas: by Kafka's names; None removes a quota.
        record: the record that must be written before anything else is added.
        written: whether the present record equals it.
        keep_out: True adds a DENY of writes to Spindle's internal topics, False removes it, None changes nothing.
    """

    give: tuple[Right, ...]
    take: tuple[Right, ...]
    quotas: Mapping[str, float | None]
    record: UserRecord
    written: bool
    keep_out: bool | None = None

    @property
    def nothing(self) -> bool:
        """Whether nothing is left to change."""
        return self.written and self.keep_out is None and not (self.give or self.take or self.quotas)


def wanted_rights(spec: KafkaUserSpec) -> frozenset[Right]:
    """The ACLs of a spec, one per operation."""
    return frozenset(
        Right(acl.resource, acl.name or "kafka-cluster", acl.pattern, operation, acl.host)
        for acl in spec.acls
        for operation in acl.operations
    )


def wanted_quotas(spec: KafkaUserSpec) -> dict[str, float]:
    """The quotas of a spec, by Kafka's names."""
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
    """Compute the changes from the desired state, the record and the state of Kafka.

    An ACL is added only after it is on record, so that an interruption at any point leaves no ACL of unknown origin. An ACL in Kafka that is
    not on record was added by another client and stays. Quotas work the same way: a removed quota gets the value back that another client
    had set before. A quota with a value that Spindle did not set was changed by another client, and stays when the spec no longer has it.

    Args:
        rights, quotas, password: the desired state; empty for a user that is being deleted.
        record: the present record.
        view: the state of Kafka.
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


def _given(value: float, given: RecordedQuota | None, live: float | None) -> RecordedQuota:
    """The record of a desired quota."""
    if given is None:
        return RecordedQuota(frozenset({value}), live)
    if live in given.ours:
        return RecordedQuota(
            frozenset({value, live}) if live is not None else frozenset({value}), given.before
        )
    # Another client changed it, or Spindle has not set it yet: the present value is the one to restore later.
    return RecordedQuota(frozenset({value}), live)


def _to_put_back(given: RecordedQuota, live: float | None) -> bool:
    return live in given.ours and live != given.before


def read_record(status: Mapping[str, Any]) -> UserRecord:
    """The record in a KafkaUser's status."""
    return UserRecord(
        frozenset(
            Right(each["resource"], each["name"], each["pattern"], each["operation"], each["host"])
            for each in status.get("acls") or ()
        ),
        {
            str(each["name"]): RecordedQuota(
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

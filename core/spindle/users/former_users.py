"""Principals of deleted KafkaUsers: all access is denied by ACL until the last of their certificates has expired.

Each is recorded (``status.formerUsers`` of the KafkaCluster) before the ACL is created, so that every such ACL is removed again.
"""

from typing import Any

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import AlterUser
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.security.principal_record import by_token, on_record
from spindle.users.principals import former_on_record


def certificate_until(state: ClusterState, user: SnapshotObject) -> str | None:
    """When the last of a user's certificates expires, in its Secret or on record; None if it never had one."""
    if by_token(user) is not None:
        return None
    secret = state.secrets.get(names.user_secret(state.name, objects.name(user)))
    found = secret.certificate if secret is not None and secret.password is None else None
    ends = [stamp(found.not_after)] if found is not None else []
    noted = (user.get("status") or {}).get("certificateUntil")
    return max([*ends, *([str(noted)] if noted else [])], default=None)


def is_out(state: ClusterState, user: SnapshotObject) -> bool:
    """Whether a certificate of the user may still be valid."""
    until = certificate_until(state, user)
    return until is not None and not _past(state, until)


def former_users(state: ClusterState) -> dict[str, str]:
    """Former principal → expiry of its last certificate; includes users that are being deleted."""
    former = former_on_record(state.status)
    for user in state.snap.users:
        principal, until = on_record(user), certificate_until(state, user)
        if objects.deleting(user) and principal and until and is_out(state, user):
            former[principal] = max(until, former.get(principal, until))
    return former


def reconcile_former_users(state: ClusterState, builder: PlanBuilder) -> list[dict[str, Any]]:
    """Create the deny ACLs that are due and remove those that have expired; returns ``status.formerUsers``."""
    recorded, kept = former_on_record(state.status), []
    for name, until in sorted(former_users(state).items()):
        view = (state.kafka.users or {}).get(name)
        past = _past(state, until)
        if view is not None and name in recorded and view.denied is past:
            builder.do(_deny(name, until, deny=not past))
        if view is None or view.denied or not past:
            kept.append({"name": name, "until": until})
    return kept


def _past(state: ClusterState, until: str) -> bool:
    return (seconds(until) or 0.0) <= state.now


def _deny(name: str, until: str, *, deny: bool) -> AlterUser:
    text = (
        f"all access is denied to the certificates of this deleted user until the last one expires on {until[:10]}"
        if deny
        else "its last certificate has expired, so its deny ACLs are removed"
    )
    return AlterUser(user=name, quotas={}, deny=deny, reason="UserChanged", message=f"User:{name}: {text}.")

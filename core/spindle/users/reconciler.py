"""KafkaUsers: credentials in a Secret, ACLs and quotas in Kafka. Spindle removes only what it granted itself."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from spindle.api import names
from spindle.api.user import KafkaUserSpec
from spindle.model import objects
from spindle.model.actions import AlterUser, Patch, SetPassword
from spindle.model.condition_rows import ConditionRow, as_conditions
from spindle.model.ownership import OWN as OWN_NAMESPACE
from spindle.model.plan_builder import PlanBuilder
from spindle.model.rights import Right, UserView
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some
from spindle.security.certificates import authority_of, stale, user_holder
from spindle.security.principal_record import RESERVED_PREFIX, by_token, is_reserved, on_record
from spindle.security.server_certificates import like_a_host, server_certificate, tell_server_certificates
from spindle.security.users_unknown import users_unknown
from spindle.users.former_users import certificate_until, former_users, is_out
from spindle.users.principals import LONGEST, principal_of
from spindle.users.rights import RightsChange, change, read_record, wanted_quotas, wanted_rights, write_record
from spindle.users.wide import OWN, wide

UserCondition = tuple[bool, str, str]  # ready, reason, message
READY: Final = "SpecApplied"
_CHANGING: Final = "Its rights, quotas or password are being changed in Kafka."
_STALLED: Final = frozenset({"InvalidSpec", "NameConflict", "NotPrivileged"})
AS_BEFORE: Final = "AllowedForCompatibility"
_REMEDY: Final = f"To resolve: have an administrator label the KafkaUser {names.LABEL_PRIVILEGED}=true (this needs the verb privilege on kafkausers), or request less."


def reconcile_users(state: ClusterState, builder: PlanBuilder) -> dict[str, dict[str, Any]]:
    """Reconcile every KafkaUser.

    Returns:
        KafkaUser name → status.
    """
    if "kafkausers" in state.snap.unknown:
        return {}
    statuses = {}
    for user in state.snap.users:
        status = (
            _deleting(state, builder, user) if objects.deleting(user) else _reconcile(state, builder, user)
        )
        if status is not None:
            statuses[objects.name(user)] = status
    tell_server_certificates(state, builder, statuses)
    _report_as_before(state, builder, statuses)
    return statuses


def release_users(state: ClusterState, builder: PlanBuilder) -> bool:
    """Remove the finalizers from the users of a cluster that is being deleted: after that, no operator would. True when none is left."""
    if "kafkausers" in state.snap.unknown:
        builder.wait(users_unknown(state, "Withdraw"))
        return False
    held = [user for user in state.snap.users if names.FINALIZER_USER in _finalizers(user)]
    for user in held:
        builder.do(_finalize(user, wanted=False))
    return not held


def unsettled(statuses: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether some user is not Ready yet, so that the next pass must follow soon."""
    return any(status["conditions"][0]["status"] != "True" for status in statuses.values())


def _reconcile(state: ClusterState, builder: PlanBuilder, user: SnapshotObject) -> dict[str, Any]:
    standing = user.get("status") or {}
    record = read_record(standing)
    if (unfit := _unfit(user)) is not None:
        return _status(state, user, record_of(standing), unfit)
    try:
        spec = KafkaUserSpec.model_validate(user.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _status(
            state, user, record_of(standing), (False, "InvalidSpec", f"spec.{where}: {first['msg']}.")
        )
    if names.FINALIZER_USER not in _finalizers(user):
        builder.do(_finalize(user, wanted=True))
        return _status(
            state, user, record_of(standing), (False, "Starting", "Spindle sets its finalizer first.")
        )
    view = _view(state, user)
    if view is None:
        why = state.kafka.error or "it did not report the user's ACLs and quotas"
        message = f"Kafka does not answer: {why}. Spindle changes nothing meanwhile."
        return _status(state, user, record_of(standing), (False, "KafkaUnknown", message))
    scram = spec.authentication == "scram"
    asked = wanted_rights(spec)
    not_allowed = _not_allowed(user, asked)
    refused = not_allowed - record.rights  # rights granted before the check existed stay
    if on_record(user) is None:
        row = _taken(state, user, asked - refused, view) or (
            False,
            "Starting",
            "Its name is free; Spindle grants its rights next.",
        )
        return _status(state, user, record_of(standing), row, settled=row[1] != "NameConflict")
    todo = change(asked - refused, wanted_quotas(spec), record, view, password=scram)
    if scram and view.scram and not record.password:
        message = (
            f"Kafka already has a SCRAM password for {objects.name(user)} that Spindle did not set; Spindle does not change it. To resolve: "
            "delete it with kafka-configs, or create a KafkaUser of another name."
        )
        return _status(state, user, record_of(standing), (False, "NameConflict", message))
    password = scram and record.password and _set_password(state, builder, user, view)
    _alter(builder, user, todo)
    row = _row(state, user, todo, password=password)
    if row[0] and refused:
        row = _not_privileged(refused, not_allowed - refused)
    elif row[0] and not_allowed:
        row = _as_before(not_allowed)
    return _status(state, user, write_record(todo.record), row)


def _unfit(user: SnapshotObject) -> UserCondition | None:
    """Why a KafkaUser cannot have its name, whatever Kafka says; None if it can. Names like a host's stay where a principal is on record."""
    name, named = objects.name(user), by_token(user)
    if is_reserved(name if named is None else named):
        why = f"{names.PRINCIPAL_ADMIN}, ANONYMOUS and names that start with {RESERVED_PREFIX} belong to Spindle"
    elif named is None and like_a_host(name, ()) and on_record(user) is None:
        why = "a name with a dot, or localhost, may be that of a host, and it becomes the common name of a certificate"
    else:
        return None
    message = f"{why}, so Spindle issues no credentials. To resolve: create a KafkaUser of another name, and install the CRDs of the chart's version."
    return (False, "NameConflict", f"{message[0].upper()}{message[1:]}")


def _not_allowed(user: SnapshotObject, asked: frozenset[Right]) -> frozenset[Right]:
    """Wide rights that no administrator allowed."""
    if (user["metadata"].get("labels") or {}).get(names.LABEL_PRIVILEGED) == "true":
        return frozenset()
    return frozenset(right for right in asked if wide(right))


def _as_before(kept: frozenset[Right]) -> UserCondition:
    message = (
        "Its Secret, rights and quotas are set. It keeps these rights beyond its own resources only because they were granted before Spindle checked "
        f"that: {_named(kept)}. Once removed from spec.acls they cannot be added again. {_REMEDY}"
    )
    return (True, AS_BEFORE, message)


def _report_as_before(
    state: ClusterState, builder: PlanBuilder, statuses: Mapping[str, Mapping[str, Any]]
) -> None:
    """Report the users with wide rights that no administrator allowed."""
    kept = [name for name, status in statuses.items() if status["conditions"][0]["reason"] == AS_BEFORE]
    if kept:
        builder.wait(
            Waiting(
                "KeepRights",
                f"KafkaCluster/{state.name}",
                AS_BEFORE,
                f"{counted(len(kept), 'KafkaUser')} {'has' if len(kept) == 1 else 'have'} rights beyond {'its' if len(kept) == 1 else 'their'} own resources that no "
                f"administrator allowed ({some(sorted(kept))}). They were granted before Spindle checked that, and stay. The status of each KafkaUser lists them.",
                f"Label each KafkaUser {names.LABEL_PRIVILEGED}=true (this needs the verb privilege on kafkausers), or remove these rights from its spec.acls.",
            )
        )


def _named(rights: frozenset[Right]) -> str:
    return some([f"{right.operation} on {right.resource} {right.name}" for right in sorted(rights)])


def _not_privileged(refused: frozenset[Right], kept: frozenset[Right]) -> UserCondition:
    stays = (
        f" These stay because they were granted before Spindle checked that: {_named(kept)}." if kept else ""
    )
    message = f"Spindle does not grant these rights, which reach beyond the user's own resources: {_named(refused)}. All else is granted.{stays} {_REMEDY}"
    return (False, "NotPrivileged", message)


def _taken(
    state: ClusterState, user: SnapshotObject, wanted: frozenset[Right], view: UserView
) -> UserCondition | None:
    """Why a new user cannot have its name: the principal exists with rights that it does not request. None if it can."""
    who = _principal(state, user)
    if other := _shares(state, user, who):
        why, way = f"User:{who} is the principal of KafkaUser {other}", ""
    elif by_token(user) is None and len(who) > LONGEST:
        why, way = f"User:{who} is longer than the common name of a certificate can be", ""
    elif view.denied:
        why = f"ACLs deny everything to User:{who}, and no record says until when"
        way = "remove these ACLs with kafka-acls if no certificate of that name is in use, or "
    elif view.scram:
        why, way = f"Kafka already has a SCRAM password for {who}", "delete it with kafka-configs, or "
    elif foreign := view.rights - wanted:
        why = (
            f"User:{who} already has rights in Kafka that this KafkaUser does not request ({_named(foreign)})"
        )
        way = "remove them with kafka-acls, request all of them in spec.acls, or "
    else:
        return None
    return (
        False,
        "NameConflict",
        f"{why}, so Spindle issues no credentials. To resolve: {way}create a KafkaUser of another name.",
    )


def _shares(state: ClusterState, user: SnapshotObject, principal: str) -> str | None:
    """Another KafkaUser with the same principal, which one of the two names by ``spec.principal``: what one gives, the other would take."""
    others = {objects.name(each): on_record(each) or by_token(each) for each in state.snap.users}
    mine = objects.name(user)
    taken = {name for name, theirs in others.items() if name != mine and theirs == principal}
    recorded = {objects.name(each) for each in state.snap.users if on_record(each) == principal}
    # Of two new ones, the first by name.
    return next(iter(sorted(taken & recorded) or sorted(name for name in taken if name < mine)), None)


def _principal(state: ClusterState, user: SnapshotObject) -> str:
    return principal_of(user, former_users(state))


def _row(state: ClusterState, user: SnapshotObject, todo: RightsChange, *, password: bool) -> UserCondition:
    secret = names.user_secret(state.name, objects.name(user))
    if by_token(user) is not None:
        return (
            (False, "Changing", _CHANGING)
            if not todo.nothing
            else (True, READY, "Its rights and quotas are set.")
        )
    if (taken := state.taken.get(("Secret", OWN_NAMESPACE, secret))) is not None and not taken.goes:
        return (
            False,
            "NameConflict",
            f"Secret {secret} exists and does not belong to this user; status.waiting of the KafkaCluster says how to resolve that.",
        )
    authority, holder = authority_of(state), user_holder(state, user)
    if authority is None or not holder.noted or stale(holder, authority, state.now):
        return (False, "SecretPending", "Its Secret is not written yet.")
    if not todo.nothing or password:
        return (False, "Changing", _CHANGING)
    return (True, READY, "Its Secret, rights and quotas are set.")


def _deleting(state: ClusterState, builder: PlanBuilder, user: SnapshotObject) -> dict[str, Any] | None:
    """Remove what Spindle granted, then the finalizer."""
    standing = user.get("status") or {}
    if names.FINALIZER_USER not in _finalizers(user):
        return None
    view, record = _view(state, user), read_record(standing)
    if view is None:
        message = "Kafka does not answer, so Spindle cannot remove this user's rights and quotas yet."
        return _status(state, user, record_of(standing), (False, "KafkaUnknown", message))
    principal = on_record(user)
    todo = change(frozenset(), {}, record, view, password=False)
    if todo.take or todo.quotas or todo.keep_out is not None or (record.password and view.scram):
        _alter(builder, user, todo, drop_password=record.password and view.scram)
        return _status(
            state,
            user,
            record_of(standing),
            (False, "Deleting", "Spindle is removing its rights, quotas and password."),
        )
    if principal is not None and is_out(state, user) and not view.denied:
        message = f"Spindle is adding ACLs that deny everything to User:{principal}, since certificates of that name are still valid."
        return _status(state, user, record_of(standing), (False, "Deleting", message))
    builder.do(_finalize(user, wanted=False))
    return None


def _alter(
    builder: PlanBuilder, user: SnapshotObject, todo: RightsChange, *, drop_password: bool = False
) -> None:
    if not (todo.give or todo.take or todo.quotas or drop_password or todo.keep_out is not None):
        return
    who = on_record(user) or objects.name(user)
    changes = [f"granted {counted(len(todo.give), 'right')}"] if todo.give else []
    changes += [f"removed {counted(len(todo.take), 'right')}"] if todo.take else []
    changes += [f"set or restored the quotas {', '.join(sorted(todo.quotas))}"] if todo.quotas else []
    changes += ["deleted the password"] if drop_password else []
    if todo.keep_out is not None:
        changes.append(f"{'denied' if todo.keep_out else 'stopped denying'} writing to {OWN}*")
    builder.do(
        AlterUser(
            user=who,
            give=todo.give,
            take=todo.take,
            quotas=todo.quotas,
            drop_password=drop_password,
            keep_out=todo.keep_out,
            reason="UserChanged",
            message=f"User:{who}: {', '.join(changes)}.",
        )
    )


def _set_password(state: ClusterState, builder: PlanBuilder, user: SnapshotObject, view: UserView) -> bool:
    """Set the password of the user's Secret in Kafka unless it is set already. True if it was not."""
    secret = state.secrets.get(names.user_secret(state.name, objects.name(user)))
    if secret is None or secret.password is None:
        return True
    known = (secret.metadata.get("annotations") or {}).get(names.ANN_PASSWORD)
    if view.scram and known == secret.password:
        return False
    who = on_record(user) or objects.name(user)
    builder.do(
        SetPassword(
            user=who,
            secret=str(secret.metadata["name"]),
            uid=str(secret.metadata.get("uid", "")),
            reason="UserChanged",
            message=f"User:{who}: set the password of its Secret in Kafka.",
        )
    )
    return True


def _view(state: ClusterState, user: SnapshotObject) -> UserView | None:
    return None if state.kafka.users is None else state.kafka.users.get(_principal(state, user))


def record_of(standing: Mapping[str, Any]) -> dict[str, Any]:
    """The record of granted rights and quotas in a user's status."""
    return write_record(read_record(standing))


def _finalizers(user: SnapshotObject) -> list[str]:
    return list(user["metadata"].get("finalizers") or ())


def _finalize(user: SnapshotObject, *, wanted: bool) -> Patch:
    """Add or remove Spindle's finalizer: Kubernetes does not garbage-collect ACLs and quotas, so the KafkaUser must outlive them."""
    others = [name for name in _finalizers(user) if name != names.FINALIZER_USER]
    return Patch(
        kind="KafkaUser",
        name=objects.name(user),
        uid=objects.uid(user),
        resource_version=objects.version(user),
        body={"metadata": {"finalizers": [*others, names.FINALIZER_USER] if wanted else others}},
    )


def _status(
    state: ClusterState,
    user: SnapshotObject,
    record: Mapping[str, Any],
    row: UserCondition,
    *,
    settled: bool = False,
) -> dict[str, Any]:
    """The status, with the principal only if it is on record or ``settled`` (decided now)."""
    principal = _principal(state, user) if settled else on_record(user)
    until = certificate_until(state, user)
    generation = user["metadata"].get("generation", 0)
    out = server_certificate(state, user)
    return {
        "observedGeneration": generation,
        **({"principal": f"User:{principal}"} if principal is not None else {}),
        **({"secret": names.user_secret(state.name, objects.name(user))} if by_token(user) is None else {}),
        **({"certificateUntil": until} if until is not None else {}),
        **record,
        **({"serverCertificate": dict(out)} if out is not None else {}),
        "conditions": as_conditions(_condition_rows(row), user.get("status") or {}, generation, state.now),
    }


def _condition_rows(row: UserCondition) -> tuple[ConditionRow, ConditionRow]:
    """``Ready`` first, then ``Stalled`` as kstatus defines it: only a user's change unblocks what is missing."""
    ready, reason, message = row
    stalled = reason in _STALLED
    return (
        ("Ready", "True" if ready else "False", reason, message),
        (
            "Stalled",
            "True" if stalled else "False",
            reason if stalled else "NotStalled",
            message if stalled else "",
        ),
    )

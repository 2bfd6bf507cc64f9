"""KafkaUsers: credentials in a Secret, rights and quotas in Kafka; what Spindle gave it takes away again, and nothing else."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.user import KafkaUserSpec
from spindle.cluster import names
from spindle.cluster.rights import Right, UserView
from spindle.cluster.waiting import Waiting, some
from spindle.reconcile import objects
from spindle.reconcile.actions import AlterUser, Patch, SetPassword
from spindle.reconcile.certificates import authority_of, stale, user_holder
from spindle.reconcile.ownership import OWN as OWN_NAMESPACE
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.former_users import certificate_until, former_users, is_out
from spindle.reconcile.steps.server_certificates import server_certificate, tell_server_certificates
from spindle.reconcile.times import stamp
from spindle.users.principals import LONGEST, on_record, principal_of
from spindle.users.rights import (
    RightsChange,
    change,
    read_record,
    wanted_quotas,
    wanted_rights,
    write_record,
)
from spindle.users.wide import OWN, wide

UserCondition = tuple[bool, str, str]  # ready, reason, message
READY: Final = "SpecApplied"
_STALLED: Final = frozenset({"InvalidSpec", "NameConflict", "NotPrivileged"})
AS_BEFORE: Final = "AllowedForCompatibility"
_WAY_OUT: Final = f"Way out: an administrator labels it {names.LABEL_PRIVILEGED}=true (that takes the verb privilege on kafkausers), or ask for less."


def reconcile_users(state: ClusterState, builder: PlanBuilder) -> dict[str, dict[str, Any]]:
    """Go on with every user; returns their statuses by name."""
    if "kafkausers" in state.snap.unknown:
        return {}
    statuses = {}
    for user in state.snap.users:
        status = _deleting(state, builder, user) if objects.deleting(user) else _settle(state, builder, user)
        if status is not None:
            statuses[objects.name(user)] = status
    tell_server_certificates(state, builder, statuses)
    _tell_as_before(state, builder, statuses)
    return statuses


def release_users(state: ClusterState, builder: PlanBuilder) -> bool:
    """Let users go of a cluster that is being deleted: nobody could take anything away from them later. True when none is held."""
    if "kafkausers" in state.snap.unknown:
        builder.wait(users_unknown(state, "Withdraw"))
        return False
    held = [user for user in state.snap.users if names.FINALIZER_USER in _finalizers(user)]
    for user in held:
        builder.do(_finalize(user, wanted=False))
    return not held


def users_unknown(state: ClusterState, action: str) -> Waiting:
    """Users that cannot be listed are not taken for none (rule 8)."""
    return Waiting(
        action,
        f"KafkaCluster/{state.name}",
        "UsersUnknown",
        "The cluster's KafkaUsers could not be listed, so nothing is done that could leave one of them behind.",
        "The API server answers, knows KafkaUsers (the chart's definitions), and the operator's role allows to list them.",
    )


def unsettled(statuses: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether some user does not have yet what it should have, so that the next pass must not be far."""
    return any(status["conditions"][0]["status"] != "True" for status in statuses.values())


def _settle(state: ClusterState, builder: PlanBuilder, user: SnapshotObject) -> dict[str, Any]:
    standing = user.get("status") or {}
    record = read_record(standing)
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
        return _status(state, user, record_of(standing), (False, "Starting", "Its finalizer is set first."))
    view = _view(state, user)
    if view is None:
        why = state.kafka.error or "it did not say what the user has"
        message = f"Kafka cannot be asked: {why}. Nothing is changed meanwhile."
        return _status(state, user, record_of(standing), (False, "KafkaUnknown", message))
    scram = spec.authentication == "scram"
    asked = wanted_rights(spec)
    not_allowed = _not_allowed(user, asked)
    refused = not_allowed - record.rights  # what was given before anybody was asked goes on
    if on_record(user) is None:
        row = _taken(state, user, asked - refused, view) or (False, "Starting", "Its name was free.")
        return _status(state, user, record_of(standing), row, settled=row[1] != "NameConflict")
    todo = change(asked - refused, wanted_quotas(spec), record, view, password=scram)
    if scram and view.scram and not record.password:
        message = (
            f"Kafka has a password for {objects.name(user)} already that Spindle did not give it; it is left alone. Way "
            "out: delete it with kafka-configs, or make a KafkaUser of another name."
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


def _not_allowed(user: SnapshotObject, asked: frozenset[Right]) -> frozenset[Right]:
    """Wide rights that nobody allowed."""
    if (user["metadata"].get("labels") or {}).get(names.LABEL_PRIVILEGED) == "true":
        return frozenset()
    return frozenset(right for right in asked if wide(right))


def _as_before(kept: frozenset[Right]) -> UserCondition:
    message = (
        "It has its Secret, its rights and its quotas. Rights that reach beyond what is its own go on only because they were given before that was asked "
        f"about: {_named(kept)}. Once they are taken out of spec.acls they do not come back. {_WAY_OUT}"
    )
    return (True, AS_BEFORE, message)


def _tell_as_before(
    state: ClusterState, builder: PlanBuilder, statuses: Mapping[str, Mapping[str, Any]]
) -> None:
    """Name the users with rights that nobody allowed."""
    kept = [name for name, status in statuses.items() if status["conditions"][0]["reason"] == AS_BEFORE]
    if kept:
        builder.wait(
            Waiting(
                "KeepRights",
                f"KafkaCluster/{state.name}",
                AS_BEFORE,
                f"KafkaUsers have rights in Kafka that reach beyond what is their own and that no administrator allowed ({some(sorted(kept))}): they were given "
                "before that was asked about, and go on. Each KafkaUser says which.",
                f"Of each: label it {names.LABEL_PRIVILEGED}=true (that takes the verb privilege on kafkausers), or take these rights out of its spec.acls.",
            )
        )


def _named(rights: frozenset[Right]) -> str:
    return some([f"{right.operation} on {right.resource} {right.name}" for right in sorted(rights)])


def _not_privileged(refused: frozenset[Right], kept: frozenset[Right]) -> UserCondition:
    goes_on = f" These go on as they were given before that was asked about: {_named(kept)}." if kept else ""
    message = f"It has what it asks for but these rights, which reach beyond what is its own: {_named(refused)}.{goes_on} {_WAY_OUT}"
    return (False, "NotPrivileged", message)


def _taken(
    state: ClusterState, user: SnapshotObject, wanted: frozenset[Right], view: UserView
) -> UserCondition | None:
    """Why a new user cannot have its name: it would become somebody with rights that it does not ask for. None if it can."""
    who = _principal(state, user)
    if len(who) > LONGEST:
        why, way = f"User:{who} is longer than a certificate's name can be", ""
    elif view.denied:
        why = f"Kafka denies everything to User:{who}, and nothing on record says until when"
        way = "take these ACLs away with kafka-acls, if no certificate of that name is out, or "
    elif view.scram:
        why, way = f"Kafka has a password for {who} already", "delete it with kafka-configs, or "
    elif foreign := view.rights - wanted:
        why = (
            f"User:{who} has rights in Kafka already that this KafkaUser does not ask for ({_named(foreign)})"
        )
        way = "take them away with kafka-acls, ask for all of them in spec.acls, or "
    else:
        return None
    return (
        False,
        "NameConflict",
        f"{why}; it gets no credentials. Way out: {way}make a KafkaUser of another name.",
    )


def _principal(state: ClusterState, user: SnapshotObject) -> str:
    return principal_of(user, former_users(state))


def _row(state: ClusterState, user: SnapshotObject, todo: RightsChange, *, password: bool) -> UserCondition:
    secret = names.user_secret(state.name, objects.name(user))
    if (taken := state.taken.get(("Secret", OWN_NAMESPACE, secret))) is not None and not taken.goes:
        return (
            False,
            "NameConflict",
            f"There is a Secret {secret} that is not this user's; the KafkaCluster's status says the way out.",
        )
    authority, holder = authority_of(state), user_holder(state, user)
    if authority is None or not holder.noted or stale(holder, authority, state.now):
        return (False, "SecretPending", "Its Secret is to be written.")
    if not todo.nothing or password:
        return (False, "Changing", "Its rights, quotas or password are being changed in Kafka.")
    return (True, READY, "It has its Secret, its rights and its quotas.")


def _deleting(state: ClusterState, builder: PlanBuilder, user: SnapshotObject) -> dict[str, Any] | None:
    """Take away what was given, then let it go."""
    standing = user.get("status") or {}
    if names.FINALIZER_USER not in _finalizers(user):
        return None
    view, record = _view(state, user), read_record(standing)
    if view is None:
        message = "Kafka cannot be asked, so what Spindle gave this user cannot be taken away yet."
        return _status(state, user, record_of(standing), (False, "KafkaUnknown", message))
    principal = on_record(user)
    todo = change(frozenset(), {}, record, view, password=False)
    if todo.take or todo.quotas or todo.keep_out is not None or (record.password and view.scram):
        _alter(builder, user, todo, drop_password=record.password and view.scram)
        return _status(
            state, user, record_of(standing), (False, "Deleting", "What it was given is taken away.")
        )
    if principal is not None and is_out(state, user) and not view.denied:
        message = f"Everything is denied to the certificates of User:{principal} that are out."
        return _status(state, user, record_of(standing), (False, "Deleting", message))
    builder.do(_finalize(user, wanted=False))
    return None


def _alter(
    builder: PlanBuilder, user: SnapshotObject, todo: RightsChange, *, drop_password: bool = False
) -> None:
    if not (todo.give or todo.take or todo.quotas or drop_password or todo.keep_out is not None):
        return
    who = on_record(user) or objects.name(user)
    said = [f"{len(todo.give)} rights given"] if todo.give else []
    said += [f"{len(todo.take)} rights taken"] if todo.take else []
    said += [f"quotas {', '.join(sorted(todo.quotas))} set or put back"] if todo.quotas else []
    said += ["password taken away"] if drop_password else []
    if todo.keep_out is not None:
        said.append(f"writing to {OWN}* {'denied' if todo.keep_out else 'no longer denied'}")
    builder.do(
        AlterUser(
            user=who,
            give=todo.give,
            take=todo.take,
            quotas=todo.quotas,
            drop_password=drop_password,
            keep_out=todo.keep_out,
            reason="UserChanged",
            message=f"User:{who}: {', '.join(said)}.",
        )
    )


def _set_password(state: ClusterState, builder: PlanBuilder, user: SnapshotObject, view: UserView) -> bool:
    """Give Kafka the password in the user's Secret, if it does not have that one. True if it did not."""
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
            message=f"User:{who}: Kafka was given the password of its Secret.",
        )
    )
    return True


def _view(state: ClusterState, user: SnapshotObject) -> UserView | None:
    return None if state.kafka.users is None else state.kafka.users.get(_principal(state, user))


def record_of(standing: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it stands in a status."""
    return write_record(read_record(standing))


def _finalizers(user: SnapshotObject) -> list[str]:
    return list(user["metadata"].get("finalizers") or ())


def _finalize(user: SnapshotObject, *, wanted: bool) -> Patch:
    """Put our finalizer on, or take it off: Kafka's own state goes with no owner, so the object must outlive it."""
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
    """The status; with the principal only if it is on record, or settled now."""
    principal = _principal(state, user) if settled else on_record(user)
    until = certificate_until(state, user)
    generation = user["metadata"].get("generation", 0)
    out = server_certificate(state, user)
    return {
        "observedGeneration": generation,
        **({"principal": f"User:{principal}"} if principal is not None else {}),
        "secret": names.user_secret(state.name, objects.name(user)),
        **({"certificateUntil": until} if until is not None else {}),
        **record,
        **({"serverCertificate": dict(out)} if out is not None else {}),
        "conditions": _conditions(state, row, generation),
    }


def _conditions(state: ClusterState, row: UserCondition, generation: int) -> list[dict[str, Any]]:
    """``Ready`` first, then ``Stalled`` as kstatus defines it: only a user's change unblocks what is missing."""
    ready, reason, message = row
    stalled = reason in _STALLED
    rows = (
        ("Ready", ready, reason, message),
        ("Stalled", stalled, reason if stalled else "NotStalled", message if stalled else ""),
    )
    return [
        {
            "type": kind,
            "status": "True" if value else "False",
            "reason": why,
            "message": text,
            "lastTransitionTime": stamp(state.now),
            "observedGeneration": generation,
        }
        for kind, value, why, text in rows
    ]

"""The cluster's own CA and the certificates of everyone who talks to Kafka."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, some
from spindle.manifests.secrets import secret_metadata
from spindle.reconcile.actions import (
    GrantAdmin,
    GrantRebalance,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    Patch,
    TurnCa,
)
from spindle.reconcile.certificates import (
    CertificateHolder,
    authority_of,
    certificate_holders,
    has_job,
    holder,
    since,
    stale,
    unknown_holders,
)
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SecretView
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.agent_access import UNKNOWN, certificates_unknown, certify_agents
from spindle.reconcile.steps.name_conflicts import name_conflict_reported
from spindle.reconcile.steps.users import users_unknown
from spindle.reconcile.times import stamp
from spindle.security.rotation import Authority, Holder, RotationPhase, RotationStep, next_step

ANN_GRANTED: Final = f"{names.GROUP}/acls"
_TOLD: Final = {
    RotationStep.ANNOUNCE: (
        "CaAnnounced",
        "A new certificate authority was made, because {why}. Everybody is to trust it first.",
    ),
    RotationStep.SWITCH: (
        "CaSwitched",
        "The new certificate authority signs from now on. The old one is trusted as well.",
    ),
    RotationStep.RETIRE: ("CaRetired", "The old certificate authority is trusted no more."),
}


def reconcile_security(state: ClusterState, builder: PlanBuilder, node_ids: tuple[int, ...]) -> None:
    """Issue what is missing, no longer true or soon out of date; replace the authority when its time has come."""
    if "secrets" in state.snap.unknown:
        return
    secret = state.secrets.get(names.ca_secret(state.name))
    authority = authority_of(state)
    if secret is None or authority is None:
        _reconcile_ca(state, builder, secret)
        return
    strange = unknown_holders(state, authority)
    if strange:
        builder.wait(_mismatch(state, strange))
        return
    if (source := _source_trouble(state)) is not None:
        builder.wait(source)
    everybody = certificate_holders(state, node_ids)
    for seat in everybody:
        if stale(seat, authority, state.now):
            builder.do(_issue(state, seat, authority))
    agents = certify_agents(state, builder, authority)
    if state.snap.agent_namespace and UNKNOWN in state.snap.unknown:
        builder.wait(certificates_unknown(state))  # nobody is forgotten when the authority is replaced
    elif "kafkausers" in state.snap.unknown:
        builder.wait(users_unknown(state, "IssueCertificate"))  # nor any of these
    else:
        holders = [holder(state, seat, authority) for seat in everybody]
        _turn(state, builder, secret, authority, holders + agents)


def _source_trouble(state: ClusterState) -> Waiting | None:
    """Why the authority of the user's own Secret cannot be had; meanwhile the one that is in use goes on."""
    name, source = state.spec.security.ca_secret, state.snap.ca_source
    if name is None or (source is not None and not source.problem):
        return None
    problem = source.problem if source is not None else "It was not read."
    return Waiting(
        "ImportCa",
        f"Secret/{name}",
        "CaSecretInvalid",
        f"The certificate authority in the Secret that spec.security.caSecret names cannot be used. {problem} An authority that is in "
        "use goes on; without one nothing is started.",
        "The Secret holds tls.crt and tls.key of an authority that signs itself and is for this cluster alone, as a cert-manager "
        "Certificate with isCA makes it. Or take caSecret out, and Spindle makes one.",
    )


def _source(state: ClusterState) -> tuple[str, str] | None:
    """Where a new authority comes from."""
    name, source = state.spec.security.ca_secret, state.snap.ca_source
    if name is None or source is None or source.certificate is None:
        return None
    return name, source.certificate.fingerprint


def _mismatch(state: ClusterState, strange: list[str]) -> Waiting:
    return Waiting(
        "IssueCertificates",
        f"Secret/{names.ca_secret(state.name)}",
        "CaMismatch",
        f"The authority in the Secret is not the one that running nodes go by ({some(strange)}): certificates that it signs "
        "would be refused by them, so none is issued. They go on with those that they have.",
        "If the Secret was restored from an older backup, restore the latest one. If only the nodes' Secrets are wrong, delete "
        "those. If the right authority is lost, with a short outage: delete all of the cluster's pods at once.",
    )


def _issue(
    state: ClusterState, holder: CertificateHolder, authority: Authority
) -> IssueCertificate | KeepPassword:
    told, seen = since(holder, authority), holder.secret.metadata if holder.secret is not None else None
    noted = stamp(told) if told is not None else ""
    if holder.password:
        message = (
            f"Secret {holder.name} was written: the password of User:{holder.principal}, and whom to trust."
        )
        return KeepPassword(
            metadata=holder.metadata,
            user=holder.principal,
            trusted=authority.trusted,
            since=noted,
            seen=seen,
            reason="SecretUpdated",
            message=message,
        )
    of = holder.principal if holder.node_id is None else names.pod_name(state.name, holder.node_id)
    return IssueCertificate(
        metadata=holder.metadata,
        common_name=holder.principal,
        dns_names=holder.hosts,
        client_properties=holder.client_properties,
        days=state.spec.security.certificate_days,
        trusted=authority.trusted,
        since=noted,
        seen=seen,
        reason="CertificateIssued",
        message=f"Certificate of {of} was issued.",
    )


def _turn(
    state: ClusterState, builder: PlanBuilder, secret: SecretView, authority: Authority, holders: list[Holder]
) -> None:
    """One step of the replacement of the authority, or what it waits for."""
    step, pending = next_step(authority, holders, state.spec.security.client_grace_seconds)
    name = names.ca_secret(state.name)
    if pending is not None:
        spreading = authority.phase is RotationPhase.SPREADING
        doing = (
            "Everybody is to trust the new one"
            if spreading
            else "Everybody is to show the new one's certificates"
        )
        builder.wait(
            Waiting(
                "ReplaceCa",
                f"Secret/{name}",
                "CaReplaced",
                f"The certificate authority is being replaced. {doing}; the old one counts as well meanwhile.",
                f"The replacement waits for {pending}.",
                quiet=True,
            )
        )
    if step is None:
        return
    annotations = {names.ANN_TURNED: stamp(state.now)}
    if step is RotationStep.ANNOUNCE:
        annotations[names.ANN_ROTATED] = _rotated(state, secret)
    builder.do(
        TurnCa(
            secret=name,
            uid=str(secret.metadata.get("uid", "")),
            resource_version=str(secret.metadata.get("resourceVersion", "")),
            step=step.value,
            annotations=annotations,
            days=state.spec.security.ca_days,
            source=_source(state),
            reason=_TOLD[step][0],
            message=_TOLD[step][1].format(why=authority.due),
        )
    )


def _rotated(state: ClusterState, secret: SecretView) -> str:
    """The wish that a replacement answers: the spec's, else the last one that was answered."""
    answered = (secret.metadata.get("annotations") or {}).get(names.ANN_ROTATED, "")
    return state.spec.security.rotate or str(answered)


def reconcile_admin(state: ClusterState, builder: PlanBuilder) -> None:
    """Give the admin its ACLs once; a person who takes them away later is not overruled."""
    secret = state.secrets.get(names.admin_secret(state.name))
    if secret is None or (secret.metadata.get("annotations") or {}).get(ANN_GRANTED) is not None:
        return
    uid = str(secret.metadata.get("uid", ""))
    if state.snap.admin_granted is False:
        builder.do(
            GrantAdmin(
                secret=names.admin_secret(state.name),
                uid=uid,
                reason="AdminGranted",
                message=f"User:{names.PRINCIPAL_ADMIN} may do everything, by ordinary ACLs that can be taken away.",
            )
        )
    elif state.snap.admin_granted:
        body = {"metadata": {"annotations": {ANN_GRANTED: "granted"}}}
        builder.do(Patch(kind="Secret", name=names.admin_secret(state.name), uid=uid, body=body))


def reconcile_rebalance(state: ClusterState, builder: PlanBuilder) -> None:
    """Give the rebalance job its ACLs once, when it has a certificate; then note that on its Secret."""
    name = names.rebalance_secret(state.name)
    secret = state.secrets.get(name)
    if secret is None or not state.kafka.brokers or not has_job(state):
        return
    if (secret.metadata.get("annotations") or {}).get(ANN_GRANTED) is not None:
        return
    principal = f"User:{names.PRINCIPAL_REBALANCE}"
    grant = GrantRebalance(
        reason="RebalanceGranted",
        message=f"{principal} may describe everything and read {names.TOPIC_SAMPLES}, by ordinary ACLs.",
    )
    body = {"metadata": {"annotations": {ANN_GRANTED: "granted"}}}
    # The patch comes only if the grant was taken.
    builder.do(grant, Patch(kind="Secret", name=name, uid=str(secret.metadata.get("uid", "")), body=body))


def _reconcile_ca(state: ClusterState, builder: PlanBuilder, ca: SecretView | None) -> None:
    secret = names.ca_secret(state.name)
    if name_conflict_reported(state, builder, "Secret", secret):
        return
    # Those of users outlive a deleted KafkaCluster, its authority does not: they say nothing about what brokers trust.
    signed = sorted(
        name
        for name, view in state.secrets.items()
        if name != secret
        and names.LABEL_USER not in (view.metadata.get("labels") or {})
        and view.certificate is not None
        and view.certificate.issuer
    )
    if ca is None and not signed:
        if (trouble := _source_trouble(state)) is not None:
            builder.wait(trouble)
            return
        source = _source(state)
        builder.do(
            IssueCa(
                secret=secret,
                metadata=_ca_metadata(state, secret),
                days=state.spec.security.ca_days,
                source=source,
                reason="CaCreated",
                message=f"The certificate authority was taken from Secret {source[0]}."
                if source
                else "The cluster's own certificate authority was made.",
            )
        )
        return
    what = "is gone" if ca is None else "holds a certificate that cannot be read, or none"
    builder.wait(
        Waiting(
            "IssueCertificates",
            f"Secret/{secret}",
            "CaMissing",
            f"The Secret of the cluster's CA {what}, while brokers trust certificates that it signed. They go on with them, "
            "but none can be issued.",
            "Restore the Secret from a backup; NameConflict then says how to tell that it is this cluster's own. Or, with a short outage: delete it and all of the cluster's Secrets "
            f"labelled {names.LABEL_CLUSTER}={state.name}, then its pods; all are made again.",
        )
    )


def _ca_metadata(state: ClusterState, secret: str) -> Mapping[str, Any]:
    """A new authority answers the wish for a new one that is written already."""
    metadata = secret_metadata(state.cluster, secret)
    request = state.spec.security.rotate
    return {**metadata, "annotations": {names.ANN_ROTATED: request}} if request else metadata

"""The cluster's certificate authority (CA), and the certificates of all nodes and clients."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.manifests.secrets import secret_metadata
from spindle.model.actions import (
    GrantAdmin,
    GrantRebalance,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    Patch,
    TurnCa,
)
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SecretView
from spindle.model.state import ClusterState
from spindle.model.times import stamp
from spindle.model.waiting import Waiting, some
from spindle.security.agent_access import UNKNOWN, certificates_unknown, certify_agents
from spindle.security.certificates import (
    CertificateHolder,
    authority_of,
    certificate_holders,
    has_job,
    holder,
    since,
    stale,
    unknown_holders,
)
from spindle.security.name_conflicts import name_conflict_reported
from spindle.security.rotation import Authority, Holder, RotationPhase, RotationStep, next_step
from spindle.security.users_unknown import users_unknown

ANN_GRANTED: Final = f"{names.GROUP}/acls"
_EVENTS: Final = {
    RotationStep.ANNOUNCE: (
        "CaAnnounced",
        "Created a new certificate authority, because {why}. All nodes and clients must trust it before it signs.",
    ),
    RotationStep.SWITCH: (
        "CaSwitched",
        "The new certificate authority signs from now on. The old one is still trusted.",
    ),
    RotationStep.RETIRE: ("CaRetired", "The old certificate authority is no longer trusted."),
}


def reconcile_security(state: ClusterState, builder: PlanBuilder) -> None:
    """Issue certificates that are missing, outdated or about to expire; replace the CA when that is due."""
    node_ids = (*state.controller_ids, *state.staying)
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
    if (source := _source_problem(state)) is not None:
        builder.wait(source)
    everybody = certificate_holders(state, node_ids)
    for seat in everybody:
        if stale(seat, authority, state.now):
            builder.do(_issue(state, seat, authority))
    agents = certify_agents(state, builder, authority)
    if state.snap.agent_namespace and UNKNOWN in state.snap.unknown:
        builder.wait(certificates_unknown(state))  # the CA is not replaced before all agents are known
    elif "kafkausers" in state.snap.unknown:
        builder.wait(users_unknown(state, "IssueCertificate"))  # nor before all users are
    else:
        holders = [holder(state, seat, authority) for seat in everybody]
        _rotate_ca(state, builder, secret, authority, holders + agents)


def _source_problem(state: ClusterState) -> Waiting | None:
    """Why the CA in the user's own Secret cannot be used; meanwhile the CA in use stays."""
    name, source = state.spec.security.ca_secret, state.snap.ca_source
    if name is None or (source is not None and not source.problem):
        return None
    problem = source.problem if source is not None else "It could not be read."
    return Waiting(
        "ImportCa",
        f"Secret/{name}",
        "CaSecretInvalid",
        f"The certificate authority in Secret {name}, which spec.security.caSecret names, cannot be used. {problem} A CA that is already in "
        "use stays in use; without one Spindle starts no node.",
        "Put tls.crt and tls.key of a self-signed CA that is used for this cluster only into the Secret, as a cert-manager "
        "Certificate with isCA does. Or remove caSecret; Spindle then creates a CA.",
    )


def _source(state: ClusterState) -> tuple[str, str] | None:
    """The Secret that a new CA is taken from, and the CA's fingerprint; None if Spindle creates the CA."""
    name, source = state.spec.security.ca_secret, state.snap.ca_source
    if name is None or source is None or source.certificate is None:
        return None
    return name, source.certificate.fingerprint


def _mismatch(state: ClusterState, strange: list[str]) -> Waiting:
    return Waiting(
        "IssueCertificates",
        f"Secret/{names.ca_secret(state.name)}",
        "CaMismatch",
        f"Running nodes do not trust the certificate authority in Secret {names.ca_secret(state.name)} (see Secrets {some(strange)}): they would reject "
        "certificates that it signs, so Spindle issues none. They keep the certificates that they have.",
        "If the Secret was restored from an older backup, restore the latest one. If only the nodes' Secrets are wrong, delete "
        "those. If the right CA is lost, delete all of the cluster's pods at once, which causes a short outage.",
    )


def _issue(
    state: ClusterState, holder: CertificateHolder, authority: Authority
) -> IssueCertificate | KeepPassword:
    trusted_since = since(holder, authority)
    seen = holder.secret.metadata if holder.secret is not None else None
    noted = stamp(trusted_since) if trusted_since is not None else ""
    if holder.password:
        message = f"Wrote Secret {holder.name}: the password of User:{holder.principal} and the trusted CA certificates."
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
        message=f"Issued the certificate of {of}.",
    )


def _rotate_ca(
    state: ClusterState, builder: PlanBuilder, secret: SecretView, authority: Authority, holders: list[Holder]
) -> None:
    """One step of the replacement of the CA, or what it waits for."""
    step, pending = next_step(authority, holders, state.spec.security.client_grace_seconds)
    name = names.ca_secret(state.name)
    if pending is not None:
        spreading = authority.phase is RotationPhase.SPREADING
        doing = (
            "All nodes and clients must trust the new CA before it signs"
            if spreading
            else "All nodes and clients must get certificates of the new CA"
        )
        builder.wait(
            Waiting(
                "ReplaceCa",
                f"Secret/{name}",
                "CaReplaced",
                f"The certificate authority is being replaced. {doing}; the old one stays trusted meanwhile.",
                f"Nothing to do: Spindle waits for {pending}.",
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
            reason=_EVENTS[step][0],
            message=_EVENTS[step][1].format(why=authority.due),
        )
    )


def _rotated(state: ClusterState, secret: SecretView) -> str:
    """The value of ``spec.security.rotate`` that a replacement fulfils; without one, the last value that was fulfilled."""
    answered = (secret.metadata.get("annotations") or {}).get(names.ANN_ROTATED, "")
    return state.spec.security.rotate or str(answered)


def reconcile_admin(state: ClusterState, builder: PlanBuilder) -> None:
    """Give the admin its ACLs once; Spindle does not restore them if a user removes them later."""
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
                message=f"Granted User:{names.PRINCIPAL_ADMIN} all operations, by ordinary ACLs that can be removed.",
            )
        )
    elif state.snap.admin_granted:
        body = {"metadata": {"annotations": {ANN_GRANTED: "granted"}}}
        builder.do(Patch(kind="Secret", name=names.admin_secret(state.name), uid=uid, body=body))


def reconcile_rebalance(state: ClusterState, builder: PlanBuilder) -> None:
    """Give the rebalance job its ACLs once, when it has a certificate, and record that on its Secret."""
    name = names.rebalance_secret(state.name)
    secret = state.secrets.get(name)
    if secret is None or not state.kafka.brokers or not has_job(state):
        return
    if (secret.metadata.get("annotations") or {}).get(ANN_GRANTED) is not None:
        return
    principal = f"User:{names.PRINCIPAL_REBALANCE}"
    grant = GrantRebalance(
        reason="RebalanceGranted",
        message=f"Granted {principal} Describe on everything and Read on {names.TOPIC_SAMPLES}, by ordinary ACLs.",
    )
    body = {"metadata": {"annotations": {ANN_GRANTED: "granted"}}}
    # The patch is applied only if the grant succeeded.
    builder.do(grant, Patch(kind="Secret", name=name, uid=str(secret.metadata.get("uid", "")), body=body))


def _reconcile_ca(state: ClusterState, builder: PlanBuilder, ca: SecretView | None) -> None:
    secret = names.ca_secret(state.name)
    if name_conflict_reported(state, builder, "Secret", secret):
        return
    # Users' Secrets outlive a deleted KafkaCluster, its CA does not, so they do not show what brokers trust.
    signed = sorted(
        name
        for name, view in state.secrets.items()
        if name != secret
        and names.LABEL_USER not in (view.metadata.get("labels") or {})
        and view.certificate is not None
        and view.certificate.issuer
    )
    if ca is None and not signed:
        if (trouble := _source_problem(state)) is not None:
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
                message=f"Took the certificate authority from Secret {source[0]}."
                if source
                else "Created the cluster's own certificate authority.",
            )
        )
        return
    what = "is gone" if ca is None else "holds no readable certificate"
    builder.wait(
        Waiting(
            "IssueCertificates",
            f"Secret/{secret}",
            "CaMissing",
            f"Secret {secret} of the cluster's CA {what}, while nodes use certificates that this CA signed. They keep running with them, "
            "but Spindle can issue no new ones.",
            "Restore the Secret from a backup; the entry NameConflict then says how to declare it this cluster's own. Or, with a short outage, delete it and "
            f"all Secrets labelled {names.LABEL_CLUSTER}={state.name}, then the cluster's pods; Spindle creates all of them again.",
        )
    )


def _ca_metadata(state: ClusterState, secret: str) -> Mapping[str, Any]:
    """Metadata of a new CA's Secret; the new CA fulfils a ``spec.security.rotate`` that is set already."""
    metadata = secret_metadata(state.cluster, secret)
    request = state.spec.security.rotate
    return {**metadata, "annotations": {names.ANN_ROTATED: request}} if request else metadata

"""The cluster's own CA and the certificates of everyone who talks to Kafka."""

from typing import Final

from spindle.cluster import names
from spindle.manifests.secrets import agent_secret_metadata, secret_metadata
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, GrantAdmin, IssueCa, IssueCertificate, Patch
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.snapshot import SecretView
from spindle.reconcile.state import State

ANN_GRANTED: Final = f"{names.GROUP}/acls"
_RENEW_BEFORE: Final = 30 * 24 * 3600  # seconds


def settle_security(state: State, draft: Draft, node_ids: tuple[int, ...]) -> None:
    """Issue what is missing, no longer true or soon out of date."""
    if "secrets" in state.snap.unknown:
        return
    ca = state.secrets.get(names.ca_secret(state.name))
    if ca is None or ca.certificate is None:
        _settle_ca(state, draft, ca)
        return
    issuer = ca.certificate.fingerprint
    for node_id in node_ids:
        secret = names.tls_secret(state.name, node_id)
        dns_names = _hosts(state, node_id)
        if stale(state.secrets.get(secret), issuer, dns_names, state.now):
            draft.do(
                IssueCertificate(
                    metadata=secret_metadata(state.cluster, secret, node_id=node_id),
                    common_name=names.PRINCIPAL_NODE,
                    dns_names=dns_names,
                    reason="CertificateIssued",
                    message=f"Certificate of {names.pod_name(state.name, node_id)} was issued.",
                )
            )
    bootstrap = f"{names.bootstrap_service(state.name)}.{state.namespace}.svc:{names.PORT_CLIENT}"
    for secret, principal, client in (
        (names.operator_secret(state.name), names.PRINCIPAL_OPERATOR, None),
        (names.admin_secret(state.name), names.PRINCIPAL_ADMIN, bootstrap),
    ):
        if stale(state.secrets.get(secret), issuer, (), state.now):
            draft.do(
                IssueCertificate(
                    metadata=secret_metadata(state.cluster, secret),
                    common_name=principal,
                    client_properties=client,
                    reason="CertificateIssued",
                    message=f"Certificate of {principal} was issued.",
                )
            )
    _settle_agents(state, draft, issuer)


def _settle_agents(state: State, draft: Draft, issuer: str) -> None:
    """The agents' certificate, in their own namespace: they read no Secret of any other."""
    if not state.snap.agent_namespace:
        return
    if "agentsecrets" in state.snap.unknown:
        draft.wait(_agent_secret_unknown(state))
    elif stale(state.snap.agent_secret, issuer, (), state.now):
        draft.do(
            IssueCertificate(
                metadata=agent_secret_metadata(state.cluster, state.snap.agent_namespace),
                common_name=names.PRINCIPAL_AGENT,
                reason="CertificateIssued",
                message=f"Certificate of {names.PRINCIPAL_AGENT} was issued.",
            )
        )


def withdraw_agents(state: State, draft: Draft) -> bool:
    """Take the agents' Secret away, which no garbage collector would. True when there is none."""
    if "agentsecrets" in state.snap.unknown:
        draft.wait(_agent_secret_unknown(state))
        return False
    secret = state.snap.agent_secret
    if secret is None:
        return True
    draft.do(
        Delete(
            kind="Secret",
            name=str(secret.metadata["name"]),
            uid=str(secret.metadata.get("uid", "")),
            namespace=state.snap.agent_namespace,
        )
    )
    return False


def _agent_secret_unknown(state: State) -> Wait:
    name, namespace = names.agent_secret(state.namespace, state.name), state.snap.agent_namespace
    return Wait(
        "Withdraw" if objects.deleting(state.cluster) else "IssueCertificate",
        f"Secret/{name}",
        "AgentSecretUnknown",
        f"The Secret by which the agents reach this cluster's Kafka could not be read in namespace {namespace}.",
        f"The operator's role in namespace {namespace} allows to read its Secrets, and the API server answers.",
    )


def settle_admin(state: State, draft: Draft) -> None:
    """Give the admin its ACLs once; a person who takes them away later is not overruled."""
    secret = state.secrets.get(names.admin_secret(state.name))
    if secret is None or (secret.metadata.get("annotations") or {}).get(ANN_GRANTED) is not None:
        return
    uid = str(secret.metadata.get("uid", ""))
    if state.snap.admin_granted is False:
        draft.do(
            GrantAdmin(
                secret=names.admin_secret(state.name),
                uid=uid,
                reason="AdminGranted",
                message=f"User:{names.PRINCIPAL_ADMIN} may do everything, by ordinary ACLs that can be taken away.",
            )
        )
    elif state.snap.admin_granted:
        body = {"metadata": {"annotations": {ANN_GRANTED: "granted"}}}
        draft.do(Patch(kind="Secret", name=names.admin_secret(state.name), uid=uid, body=body))


def stale(secret: SecretView | None, issuer: str, dns_names: tuple[str, ...], now: float) -> bool:
    """Whether a Secret's certificate must be issued (again)."""
    if secret is None or secret.certificate is None or "keystore.pem" not in secret.keys:
        return True
    certificate = secret.certificate
    return (
        certificate.issuer != issuer
        or not set(dns_names) <= set(certificate.dns_names)
        or certificate.not_after - now < _RENEW_BEFORE
    )


def _settle_ca(state: State, draft: Draft, ca: SecretView | None) -> None:
    secret = names.ca_secret(state.name)
    signed = sorted(
        name
        for name, view in state.secrets.items()
        if name != secret and view.certificate is not None and view.certificate.issuer
    )
    if ca is None and not signed:
        draft.do(
            IssueCa(
                secret=secret,
                metadata=secret_metadata(state.cluster, secret),
                reason="CaCreated",
                message="The cluster's own certificate authority was made.",
            )
        )
        return
    what = "is gone" if ca is None else "holds no certificate that can be read"
    draft.wait(
        Wait(
            "IssueCertificates",
            f"Secret/{secret}",
            "CaMissing",
            f"The Secret of the cluster's CA {what}, while brokers trust certificates that it signed. They go on with them, "
            "but none can be issued.",
            "Restore the Secret from a backup. Or, with a short outage: delete it and all of the cluster's Secrets "
            f"labelled {names.LABEL_CLUSTER}={state.name}, then its pods; all are made again.",
        )
    )


def _hosts(state: State, node_id: int) -> tuple[str, ...]:
    host = names.node_host(state.name, state.namespace, node_id)
    hosts = [host, f"{host}.cluster.local"]
    if node_id < names.FIRST_CONTROLLER_ID:
        bootstrap = f"{names.bootstrap_service(state.name)}.{state.namespace}.svc"
        hosts += [bootstrap, f"{bootstrap}.cluster.local"]
    return tuple(hosts)

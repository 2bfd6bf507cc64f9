"""Which CA signs, who has a certificate, and which certificates have to be issued again."""

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.listeners.advertised_listeners import listeners_of
from spindle.manifests.secrets import secret_metadata, user_secret_metadata
from spindle.model import objects
from spindle.model.snapshot import Certificate, SecretView, SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.security.principal_record import by_token, on_record
from spindle.security.rotation import Authority, Holder, RotationPhase

DAY: Final = 86400
FOLLOWING: Final = "next.crt"  # keys of the CA's Secret besides ca.crt and ca.key
FORMER: Final = "old.crt"
# Seconds by which the clocks of operator and API server may differ, plus the time of a write.
_CLOCKS: Final = 120.0


@dataclass(frozen=True)
class CertificateHolder:
    """A principal that gets a certificate.

    Attributes:
        metadata: of the Secret.
        secret: as it is now, None if it does not exist.
        principal: the certificate's common name.
        hosts: its subject alternative names.
        node_id: of a broker or controller; None for a client.
        client_properties: bootstrap address for a ready ``client.properties``, None for none.
        password: whether it has a password in place of a certificate.
        issued: of a user: when its KafkaUser was made, in seconds since the epoch.
        noted: whether the end of its present certificate is on record, if that is valid for servers.
    """

    metadata: Mapping[str, Any]
    secret: SecretView | None
    principal: str
    hosts: tuple[str, ...] = ()
    node_id: int | None = None
    client_properties: str | None = None
    password: bool = False
    issued: float | None = None
    noted: bool = True

    @property
    def name(self) -> str:
        """Name of the Secret."""
        return str(self.metadata["name"])


def authority_of(state: ClusterState) -> Authority | None:
    """The cluster's CA; None if its Secret does not exist or cannot be parsed."""
    secret = state.secrets.get(names.ca_secret(state.name))
    if secret is None or secret.certificate is None or unreadable(secret):
        return None
    others = [each.fingerprint for each in (secret.following, secret.former) if each is not None]
    phase = (
        RotationPhase.SPREADING
        if secret.following
        else RotationPhase.CHANGING
        if secret.former
        else RotationPhase.STABLE
    )
    signer = secret.certificate.fingerprint
    return Authority(phase, signer, tuple(dict.fromkeys([signer, *others])), _due(state, secret))


def unreadable(authority: SecretView) -> bool:
    """Whether the CA's Secret holds a second certificate that cannot be parsed: removing it could lock clients out."""
    return (FOLLOWING in authority.keys and authority.following is None) or (
        FORMER in authority.keys and authority.former is None
    )


def _due(state: ClusterState, authority: SecretView) -> str | None:
    if state.spec.security.ca_secret is not None:
        return _due_by_source(state, authority)
    request = state.spec.security.rotate
    if request and request != (authority.metadata.get("annotations") or {}).get(names.ANN_ROTATED):
        return f"spec.security.rotate requests it ({request})"
    certificate = authority.certificate
    if certificate is None or certificate.not_after - state.now >= state.spec.security.ca_days * DAY / 5:
        return None
    return f"its certificate expires on {stamp(certificate.not_after)[:10]}"


def _due_by_source(state: ClusterState, authority: SecretView) -> str | None:
    """A CA that comes from a Secret is replaced only when that Secret holds another one."""
    source, certificate = state.snap.ca_source, authority.certificate
    if source is None or source.certificate is None or certificate is None:
        return None
    if source.certificate.fingerprint == certificate.fingerprint:
        return None
    return f"Secret {state.spec.security.ca_secret} holds another one"


def certificate_holders(state: ClusterState, node_ids: tuple[int, ...]) -> list[CertificateHolder]:
    """All principals with a certificate of the cluster's CA in a Secret; those of agents are kept elsewhere."""
    found = [node_holder(state, node_id) for node_id in node_ids]
    bootstrap = f"{names.bootstrap_service(state.name)}.{state.namespace}.svc:{names.PORT_CLIENT}"
    for name, principal, client in (
        (names.operator_secret(state.name), names.PRINCIPAL_OPERATOR, None),
        (names.admin_secret(state.name), names.PRINCIPAL_ADMIN, bootstrap),
        *_of_the_job(state),
    ):
        found.append(
            CertificateHolder(
                secret_metadata(state.cluster, name),
                state.secrets.get(name),
                principal,
                client_properties=client,
            )
        )
    # A user with tokens of an issuer has no credentials of Spindle. A user whose principal is in conflict gets no certificate: it would let the user act as another one.
    return found + [
        user_holder(state, user)
        for user in state.snap.users
        if not objects.deleting(user) and on_record(user) is not None and by_token(user) is None
    ]


def user_holder(state: ClusterState, user: SnapshotObject) -> CertificateHolder:
    """The holder for a KafkaUser, which owns its Secret."""
    name = names.user_secret(state.name, objects.name(user))
    password = (user.get("spec") or {}).get("authentication") == "scram"
    secret = state.secrets.get(name)
    return CertificateHolder(
        user_secret_metadata(state.cluster, user, name),
        secret,
        on_record(user) or objects.name(user),
        password=password,
        issued=seconds(user["metadata"].get("creationTimestamp")),
        noted=_noted(user, secret),
    )


def _noted(user: SnapshotObject, secret: SecretView | None) -> bool:
    """Whether the status records the expiry of the certificate in a user's Secret, if that is valid for servers."""
    certificate = secret.certificate if secret else None
    if certificate is None or not certificate.servers:
        return True
    until = seconds(((user.get("status") or {}).get("serverCertificate") or {}).get("until"))
    return until is not None and until >= int(certificate.not_after)


def _of_the_job(state: ClusterState) -> tuple[tuple[str, str, None], ...]:
    """The holder for the rebalance job, if there is one."""
    return ((names.rebalance_secret(state.name), names.PRINCIPAL_REBALANCE, None),) if has_job(state) else ()


def has_job(state: ClusterState) -> bool:
    """Whether the cluster has a rebalance job: an image of one is known."""
    return bool(state.spec.rebalance.engine.image or state.snap.rebalance_image)


def node_holder(state: ClusterState, node_id: int) -> CertificateHolder:
    """The holder for a broker or controller."""
    name = names.tls_secret(state.name, node_id)
    return CertificateHolder(
        secret_metadata(state.cluster, name, node_id=node_id),
        state.secrets.get(name),
        names.PRINCIPAL_NODE,
        _hosts(state, node_id),
        node_id,
    )


def in_last_third(certificate: Certificate, now: float) -> bool:
    """Whether a certificate is in the last third of its lifetime, when a new one is due."""
    return certificate.not_after - now < (certificate.not_after - certificate.issued) / 3


def stale(holder: CertificateHolder, authority: Authority, now: float) -> bool:
    """Whether a certificate must be issued (again)."""
    secret = holder.secret
    if holder.password:
        return secret is None or secret.password is None or since(holder, authority) is None
    if secret is None or secret.certificate is None or "keystore.pem" not in secret.keys:
        return True
    certificate = secret.certificate
    return (
        certificate.issuer != authority.signer
        or set(secret.trust) != set(authority.trusted)
        or certificate.common_name != holder.principal
        or not set(holder.hosts) <= set(certificate.dns_names)
        or in_last_third(certificate, now)
        or (certificate.servers and holder.node_id is None and holder.noted)
    )


def unknown_holders(state: ClusterState, authority: Authority) -> list[str]:
    """Secrets of nodes with a pod that do not match the CA: an older CA was restored in its place.

    A CA may sign only when every process trusts it, and trusted ones may be removed only when nobody depends on them. During a replacement both hold.
    """
    staying = (node_id for node_id, pod in state.pods.items() if not objects.deleting(pod))
    found = (names.tls_secret(state.name, node_id) for node_id in staying)
    return [name for name in found if _strange(state.secrets.get(name), authority)]


def _strange(secret: SecretView | None, authority: Authority) -> bool:
    # A certificate without an issuer is broken and says nothing about what its process trusts.
    if secret is None or secret.certificate is None or not secret.certificate.issuer:
        return False
    return authority.signer not in secret.trust or secret.certificate.issuer not in authority.trusted


def node_stale(state: ClusterState, node_id: int) -> bool:
    """Whether a node's certificate is about to be issued again, so that no pod should start with the present one."""
    authority = authority_of(state)
    holder = node_holder(state, node_id)
    if authority is None or not stale(holder, authority, state.now):
        return False
    # Nothing is issued then: a pod that has to start uses what all others trust.
    return not (_strange(holder.secret, authority) and unknown_holders(state, authority))


def since(holder: CertificateHolder, authority: Authority) -> float | None:
    """Since when a Secret lists the CAs that it should list now, in seconds since the epoch; None if it does not.

    This is not the time of the last write: a renewal changes no CA, so clients need no time for it.
    """
    secret = holder.secret
    if secret is None or set(secret.trust) != set(authority.trusted):
        return None
    noted = seconds((secret.metadata.get("annotations") or {}).get(names.ANN_WRITTEN))
    if holder.password:
        return noted  # it presents no certificate
    if secret.certificate is None or secret.certificate.issuer != authority.signer:
        return None
    return secret.certificate.issued if noted is None else noted


def holder(state: ClusterState, holder: CertificateHolder, authority: Authority) -> Holder:
    """A certificate holder as the replacement of the CA sees it."""
    secret = holder.secret
    certificate = secret.certificate if secret else None
    started = None if holder.node_id is None else not restarts_for(state, holder.node_id)
    if secret is None or certificate is None:
        return Holder(holder.name, "", frozenset(), 0.0, started)
    told = since(holder, authority)
    age = math.inf if _newcomer(state, holder) else state.now - told if told is not None else 0.0
    issuer = None if holder.password else certificate.issuer
    return Holder(holder.name, issuer, frozenset(secret.trust), age, started)


def _newcomer(state: ClusterState, holder: CertificateHolder) -> bool:
    """Whether a user was created after the last step of the replacement, so that its clients know nothing older.

    A new Secret alone is no evidence: clients may still use the contents of one that was deleted.
    """
    authority = state.secrets.get(names.ca_secret(state.name))
    if authority is None or holder.secret is None or holder.issued is None:
        return False
    turned = seconds((authority.metadata.get("annotations") or {}).get(names.ANN_TURNED))
    written = seconds(holder.secret.metadata.get("creationTimestamp"))
    return turned is not None and written is not None and min(holder.issued, written) >= turned + _CLOCKS


def restarts_for(state: ClusterState, node_id: int) -> bool:
    """Whether a node's process was started with another certificate than the one in its Secret."""
    pod, secret = state.pods.get(node_id), state.secrets.get(names.tls_secret(state.name, node_id))
    if pod is None or secret is None or secret.certificate is None:
        return False
    return not _started_with(pod, secret.certificate.fingerprint, secret.certificate.issued)


def _started_with(pod: SnapshotObject, fingerprint: str, issued: float) -> bool:
    noted = objects.annotation(pod, names.ANN_CERTIFICATE)
    if noted is not None:
        return noted == fingerprint
    # A pod of an earlier version records nothing; it has the certificate if that existed before the pod.
    created = seconds(pod["metadata"].get("creationTimestamp"))
    return created is None or created >= issued


def _hosts(state: ClusterState, node_id: int) -> tuple[str, ...]:
    host = names.node_host(state.name, state.namespace, node_id)
    hosts = [host, f"{host}.cluster.local"]
    if node_id < names.FIRST_CONTROLLER_ID:
        hosts += _service_hosts(names.bootstrap_service(state.name), state.namespace)
        hosts += _client_hosts(state, node_id)
    return tuple(dict.fromkeys(hosts))


def _client_hosts(state: ClusterState, node_id: int) -> list[str]:
    """Names and addresses under which clients of the spec's listeners reach a broker."""
    broker = state.brokers.get(node_id)
    if broker is None:
        return []
    inside = [
        host
        for listener in state.spec.listeners
        if listener.type == "internal"
        for host in _service_hosts(names.listener_service(state.name, listener.name), state.namespace)
    ]
    inside += [each.bootstrap.host for each in state.spec.listeners if each.bootstrap is not None]
    return [*inside, *(_canonical(broker_listener.host) for broker_listener in listeners_of(state, broker))]


def _service_hosts(service: str, namespace: str) -> list[str]:
    """The names under which a pod finds a Service: the short ones by the search list of its resolv.conf."""
    short = f"{service}.{namespace}"
    return [service, short, f"{short}.svc", f"{short}.svc.cluster.local"]


def _canonical(host: str) -> str:
    """An address in the canonical form of certificates; in another form it would always look missing."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host

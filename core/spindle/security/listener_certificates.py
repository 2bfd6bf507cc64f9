"""Certificates of the user's own for listeners: checked and copied from their Secrets, and loaded by running brokers without a restart.

A Secret that is missing or holds something that cannot be used changes nothing: brokers keep the certificate that was copied last.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from spindle.api import names
from spindle.api.listeners import Listener
from spindle.listeners.advertised_listeners import address_of
from spindle.listeners.broker_listener import keystore_key, keystore_path
from spindle.listeners.own_certificates import created_with, held, interrupted, loaded, mark
from spindle.manifests.pods import own_certificates_text
from spindle.manifests.secrets import secret_metadata
from spindle.model import objects
from spindle.model.actions import CopyCertificates, Patch, ReloadCertificates
from spindle.model.layout import Layout
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import Certificate, SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.waiting import Waiting, counted, some

_DIR: Final = Layout().listeners_dir
# Seconds after which a certificate has reached most nodes: the kubelet looks once a minute.
_DELIVERED: Final = 60.0
# Seconds after which a broker that could not load it is restarted.
_RESTART_AFTER: Final = 900.0
# A certificate is reported when less than this part of its validity is left. cert-manager renews it in its last third.
_LAST: Final = 5


def reconcile_listener_certificates(state: ClusterState, builder: PlanBuilder) -> None:
    """Take up the certificates that the spec names, have running brokers load them, and report what is wrong with them."""
    if "secrets" in state.snap.unknown:
        return
    present = held(state)
    fresh: dict[str, tuple[str, str]] = {}
    for listener in state.spec.listeners:
        if listener.certificate is None:
            continue
        offered = _offered(state, builder, listener, present.get(listener.name))
        if offered is not None and offered != present.get(listener.name):
            fresh[listener.name] = (listener.certificate.secret_name, mark(offered))
        if (used := offered or present.get(listener.name)) is not None:
            _tell(state, builder, listener, used)
    _copy(state, builder, present, fresh)
    if not fresh:
        _load(state, builder, present)


def _offered(
    state: ClusterState, builder: PlanBuilder, listener: Listener, present: Certificate | None
) -> Certificate | None:
    """The certificate in the Secret of a listener; None, and a reason, if it must not be taken up."""
    name = listener.certificate.secret_name if listener.certificate is not None else ""
    source = state.snap.listener_sources.get(name)
    if source is None or source.certificate is None:
        problem = source.problem if source is not None else "It could not be read."
        builder.wait(_invalid(listener, name, problem, present))
        return None
    if present is not None and mark(source.certificate) == mark(present):
        return present
    lost = sorted(_lacking(state, listener, source.certificate) - _lacking(state, listener, present))
    if present is not None and lost and present.not_after > state.now:
        problem = f"It is not valid for {some(lost)}, which clients connect to and the certificate in use is valid for."
        builder.wait(_invalid(listener, name, problem, present))
        return None
    return source.certificate


def _invalid(listener: Listener, secret: str, problem: str, present: Certificate | None) -> Waiting:
    goes_on = (
        "Until it can be used, brokers present the certificate that Spindle issued."
        if present is None
        else f"Brokers keep the certificate that they have, which is valid until {stamp(present.not_after)[:10]}."
    )
    return Waiting(
        "ImportCertificate",
        f"Secret/{secret}",
        "ListenerCertificateInvalid",
        f"The certificate of listener {listener.name} in Secret {secret} cannot be used. {problem} {goes_on}",
        "Put tls.key and tls.crt (the certificate first, then each authority that signed the one before it) into the Secret, as a cert-manager "
        f"Certificate with the hosts of the listener does. Or remove certificate from listener {listener.name}; it then presents Spindle's.",
    )


def _tell(state: ClusterState, builder: PlanBuilder, listener: Listener, used: Certificate) -> None:
    secret = listener.certificate.secret_name if listener.certificate is not None else ""
    if lacking := sorted(_lacking(state, listener, used)):
        builder.wait(
            Waiting(
                "VerifyHosts",
                f"Secret/{secret}",
                "ListenerCertificateLacksHosts",
                f"The certificate of listener {listener.name} is not valid for {counted(len(lacking), 'host')} that brokers advertise: {some(lacking)}. "
                "Clients that verify host names cannot connect to them.",
                f"Renew the certificate in Secret {secret} with these names (dnsNames, ipAddresses), or with a wildcard; or let brokers advertise names "
                "that it has (advertisedHostTemplate).",
            )
        )
    if used.not_after - state.now < (used.not_after - used.issued) / _LAST:
        over = "expired" if used.not_after <= state.now else "expires"
        builder.wait(
            Waiting(
                "RenewCertificate",
                f"Secret/{secret}",
                "ListenerCertificateExpiring",
                f"The certificate of listener {listener.name} {over} on {stamp(used.not_after)[:10]}, and Secret {secret} holds no newer one. Then no "
                "client that verifies it can connect.",
                f"Renew it in Secret {secret}; with cert-manager, see why its Certificate is not ready. Brokers take it up without a restart.",
            )
        )


def _lacking(state: ClusterState, listener: Listener, certificate: Certificate | None) -> set[str]:
    """The advertised hosts of a listener that a certificate is not valid for."""
    found = (address_of(state, listener, broker_id) for broker_id in state.brokers)
    hosts = {host for host, _ in (each for each in found if each is not None)}
    if listener.bootstrap is not None:
        hosts.add(listener.bootstrap.host)
    return {host for host in hosts if certificate is None or not covers(certificate.dns_names, host)}


def covers(valid_for: Iterable[str], host: str) -> bool:
    """Whether a certificate with these names and addresses is valid for a host (RFC 9525: a wildcard stands for one whole label)."""
    try:
        return str(ipaddress.ip_address(host)) in set(valid_for)
    except ValueError:
        _, dot, parent = host.lower().partition(".")
        wanted = {host.lower(), f"*.{parent}"} if dot else {host.lower()}
        return not wanted.isdisjoint(name.lower() for name in valid_for)


def _copy(
    state: ClusterState,
    builder: PlanBuilder,
    present: Mapping[str, Certificate],
    fresh: Mapping[str, tuple[str, str]],
) -> None:
    """Write the Secret that brokers read. What a running broker was created with stays until that has restarted without it.

    An empty one is kept: the operator may not delete Secrets.
    """
    name = names.listeners_secret(state.name)
    secret = state.secrets.get(name)
    wanted = {each.name for each in state.spec.listeners if each.certificate is not None}
    used = {listener for number in state.brokers for listener in created_with(state.pods.get(number))}
    keep = tuple(sorted((present.keys() & (wanted | used)) - fresh.keys()))
    if not fresh and len(keep) == len(present):
        return
    told = ", ".join(f"{listener} from Secret {source}" for listener, (source, _) in sorted(fresh.items()))
    builder.do(
        CopyCertificates(
            metadata=secret_metadata(state.cluster, name),
            sources=dict(fresh),
            keep=keep,
            seen=secret.metadata if secret is not None else None,
            reason="ListenerCertificateCopied" if fresh else "ListenerCertificateRemoved",
            message=f"Took the certificate of listener {told}."
            if fresh
            else "Removed certificates of listeners that have none of their own.",
        )
    )


def _load(state: ClusterState, builder: PlanBuilder, present: Mapping[str, Certificate]) -> None:
    """Have running brokers load what has changed since their process loaded it."""
    behind: dict[str, list[str]] = {}
    age = _age(state)
    for number, broker in state.brokers.items():
        pod = state.pods.get(number)
        due = _due(state, number, present)
        for listener in due:
            behind.setdefault(listener, []).append(objects.name(broker))
        if age < _DELIVERED:
            due = {}
        if pod is None or not (due or interrupted(broker)):
            continue
        if objects.kafka_runs(pod) and not objects.deleting(pod):
            builder.do(_reload(broker, pod, due))
    for listener, brokers in sorted(behind.items()):
        builder.wait(
            Waiting(
                "ReloadCertificate",
                f"Secret/{names.listeners_secret(state.name)}/{listener}",
                "ListenerCertificateSpreading",
                f"{counted(len(brokers), 'broker')} still {'presents' if len(brokers) == 1 else 'present'} the previous certificate of listener {listener}: {some(sorted(brokers))}.",
                "Nothing to do: the nodes receive the new one within two minutes, and the brokers then load it without a restart. A broker that cannot "
                "is restarted after 15 minutes.",
                quiet=True,
            )
        )


def _due(state: ClusterState, number: int, present: Mapping[str, Certificate]) -> dict[str, str]:
    """Listener → mark of the certificate that a broker's process has not loaded yet; only of listeners that it was created with."""
    pod, broker = state.pods.get(number), state.brokers.get(number)
    if pod is None or broker is None:
        return {}
    have = loaded(pod, broker)
    return {
        listener: mark(present[listener])
        for listener in sorted(created_with(pod).keys() & present.keys())
        if have.get(listener) != mark(present[listener])
    }


def _reload(broker: SnapshotObject, pod: SnapshotObject, due: Mapping[str, str]) -> ReloadCertificates:
    """Load what is due, and remove what an earlier load may have left in Kafka."""
    name, left = objects.name(broker), interrupted(broker)
    present = {**loaded(pod, broker), **due}
    note = f"{objects.uid(pod)} {own_certificates_text(present)}"

    def noted(**annotations: str | None) -> Patch:
        body = {"metadata": {"annotations": annotations}}
        return Patch(kind="KafkaBroker", name=name, uid=objects.uid(broker), body=body)

    touched = sorted({*due, *left})
    return ReloadCertificates(
        broker=int(broker["spec"]["id"]),
        paths={
            keystore_key(listener): keystore_path(_DIR, listener, marked) for listener, marked in due.items()
        },
        remove=tuple(map(keystore_key, touched)),
        begin=noted(**{names.ANN_LOADING: " ".join(touched)}),
        record=noted(**{names.ANN_OWN_CERTIFICATES: note, names.ANN_LOADING: None}),
        reason="ListenerCertificateReloaded",
        message=f"{name} presents the new certificate of listener {', '.join(sorted(due))}, without a restart."
        if due
        else f"{name}: removed the settings that an interrupted load of the certificate of listener {', '.join(left)} may have left in Kafka.",
    )


def not_reloaded(state: ClusterState, number: int) -> str | None:
    """A listener whose new certificate a broker could not load for a quarter of an hour; None if there is none."""
    if _age(state) < _RESTART_AFTER:
        return None
    return next(iter(_due(state, number, held(state))), None)


def _age(state: ClusterState) -> float:
    """Seconds since the Secret was written; 0 if that is not known."""
    secret = state.secrets.get(names.listeners_secret(state.name))
    annotations = (secret.metadata.get("annotations") or {}) if secret is not None else {}
    written = seconds(annotations.get(names.ANN_WRITTEN))
    return 0.0 if written is None else state.now - written

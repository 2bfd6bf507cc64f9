"""Certificates of the user's own for listeners: what is taken up, what is refused, and what running brokers keep."""

import base64
import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spindle.api import names
from spindle.listeners.own_certificates import file_names, listener_of, mark
from spindle.model.actions import Action, CopyCertificates, Evict, ReloadCertificates
from spindle.model.snapshot import Certificate, ListenerSource
from spindle.security.listener_certificates import covers
from spindle_operator import ca
from spindle_operator.observe import secret_view
from spindle_operator.own_certificate import read
from tests.model.world import World

LATE = 4e9  # seconds since the epoch
NOW = dt.datetime.now(dt.UTC)
OUTSIDE = {
    "name": "outside",
    "port": 9097,
    "type": "loadbalancer",
    "advertisedHostTemplate": "broker-{nodeId}.kafka.example.com",
    "certificate": {"secretName": "kafka-outside"},
}
BARE = {key: value for key, value in OUTSIDE.items() if key != "certificate"}
FOLDER = names.LISTENERS_DIR


def made(serial: str, *hosts: str, ends: float = LATE, issued: float = 0.0) -> ListenerSource:
    return ListenerSource(
        Certificate("kafka", hosts or ("*.kafka.example.com",), "", serial * 16, ends, issued, servers=True)
    )


def running(listener: dict[str, Any] = OUTSIDE, **sources: ListenerSource) -> World:
    world = World.of(listeners=[listener])
    world.listener_sources = {f"kafka-{name}": each for name, each in sources.items()}
    world.settle()
    return world


def properties(world: World, broker: int = 0) -> dict[str, str]:
    text = world.get("ConfigMap", f"demo-broker-{broker}-config")["data"]["server.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def passes(world: World, count: int = 30) -> list[Action]:
    found: list[Action] = []
    for _ in range(count):
        found += world.reconcile().actions
        world.breathe()
    return found


def waits(world: World) -> dict[str, dict[str, Any]]:
    return {w["reason"]: w for w in world.cluster["status"]["waiting"]}


def presented(world: World) -> set[str]:
    """What the brokers present, by the records."""
    found = set()
    for broker in world.all("KafkaBroker"):
        pod = world.get("Pod", f"demo-broker-{broker['spec']['id']}")
        note = broker["metadata"].get("annotations", {}).get(names.ANN_OWN_CERTIFICATES, "")
        uid, _, later = note.partition(" ")
        first = pod["metadata"]["annotations"].get(names.ANN_OWN_CERTIFICATES, "")
        found.add(later if uid == pod["metadata"]["uid"] else first)
    return found


def evicted(actions: list[Action]) -> list[str]:
    return [each.pod for each in actions if isinstance(each, Evict)]


def test_a_certificate_is_presented_from_the_first_start() -> None:
    world = running(outside=made("a"))
    found = properties(world)
    assert found["listener.name.outside.ssl.keystore.location"] == f"{FOLDER}/outside.pem"
    assert found["listener.name.outside.ssl.allow.san.changes"] == "true"
    pod = world.get("Pod", "demo-broker-0")
    assert {"name": "listeners", "mountPath": FOLDER, "readOnly": True} in pod["spec"]["containers"][0][
        "volumeMounts"
    ]
    (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "listeners"]
    assert volume["secret"]["secretName"] == "demo-listeners"
    assert presented(world) == {f"outside={'a' * 16}"}
    assert not waits(world)
    controller = world.get("Pod", "demo-controller-0")
    assert "listeners" not in {v["name"] for v in controller["spec"]["volumes"]}


def test_another_certificate_is_loaded_without_a_restart() -> None:
    world = running(outside=made("a"))
    world.listener_sources["kafka-outside"] = made("b")
    actions = passes(world)
    assert len([a for a in actions if isinstance(a, CopyCertificates)]) == 1
    loads = [a for a in actions if isinstance(a, ReloadCertificates)]
    assert sorted(a.broker for a in loads) == [0, 1, 2]
    assert loads[0].paths == {
        "listener.name.outside.ssl.keystore.location": f"{FOLDER}/outside.{'b' * 16}.pem"
    }
    assert not evicted(actions)
    assert presented(world) == {f"outside={'b' * 16}"}
    assert not waits(world)
    assert not world.reconcile().actions
    # The first one again is another certificate than the one that was loaded last.
    world.listener_sources["kafka-outside"] = made("a")
    passes(world)
    assert presented(world) == {f"outside={'a' * 16}"}


def test_what_an_interrupted_load_left_in_kafka_is_removed_although_the_broker_restarted() -> None:
    """Kafka takes no other setting of a broker that has a setting with a file that is gone."""
    world = running(outside=made("a"))
    broker = world.get("KafkaBroker", "demo-broker-1")
    broker["metadata"].setdefault("annotations", {})[names.ANN_LOADING] = "outside former"
    (load,) = [a for a in passes(world, 3) if isinstance(a, ReloadCertificates)]
    assert (load.broker, load.paths) == (1, {})
    assert set(load.remove) == {
        f"listener.name.{name}.ssl.keystore.location" for name in ("outside", "former")
    }
    assert names.ANN_LOADING not in world.get("KafkaBroker", "demo-broker-1")["metadata"]["annotations"]
    assert presented(world) == {f"outside={'a' * 16}"}


def test_that_it_is_being_loaded_is_on_record_before_and_not_afterwards() -> None:
    world = running(outside=made("a"))
    world.undelivered = {1}
    world.listener_sources["kafka-outside"] = made("b")
    passes(world, 15)
    noted = [names.ANN_LOADING in b["metadata"].get("annotations", {}) for b in world.all("KafkaBroker")]
    assert noted == [False, True, False]


def test_an_authority_that_was_missing_is_loaded_too() -> None:
    """The same certificate, with the intermediate authority that clients need to verify it."""
    world = running(outside=made("a"))
    before = presented(world)
    bare = made("a").certificate
    assert bare is not None
    world.listener_sources["kafka-outside"] = ListenerSource(replace(bare, chain="c" * 64))
    actions = passes(world)
    assert sorted(a.broker for a in actions if isinstance(a, ReloadCertificates)) == [0, 1, 2]
    assert not evicted(actions)
    assert presented(world) != before
    assert not world.reconcile().actions


def test_a_renewal_without_a_host_is_taken_once_the_one_in_use_has_expired() -> None:
    """Then nobody who verifies it can connect at all."""
    world = running(outside=made("a", ends=0.0))
    world.listener_sources["kafka-outside"] = made("b", "broker-0.kafka.example.com")
    assert [a for a in passes(world) if isinstance(a, CopyCertificates)]
    assert presented(world) == {f"outside={'b' * 16}"}
    assert "ListenerCertificateLacksHosts" in waits(world)


def test_a_broker_that_cannot_load_it_is_restarted_in_the_end() -> None:
    world = running(outside=made("a"))
    world.undelivered = {1}
    world.listener_sources["kafka-outside"] = made("b")
    assert "ListenerCertificateSpreading" not in waits(world)
    began = world.now
    gone: list[str] = []
    while not gone and world.now - began < 3600:
        gone = evicted(passes(world, 1))
        assert "ListenerCertificateSpreading" in waits(world) or gone or world.now - began < 120
    assert gone == ["demo-broker-1"]
    assert world.now - began >= 900
    world.settle()
    assert presented(world) == {f"outside={'b' * 16}"}


@pytest.mark.parametrize(
    "bad",
    [
        ListenerSource(problem="The Secret does not exist."),
        made("b", "elsewhere.example.com"),
        made("b", "broker-0.kafka.example.com", "broker-1.kafka.example.com"),
    ],
    ids=["gone", "of-another-host", "without-one-host"],
)
def test_what_cannot_be_used_is_refused_and_brokers_keep_what_they_have(bad: ListenerSource) -> None:
    world = running(outside=made("a"))
    world.listener_sources["kafka-outside"] = bad
    assert not passes(world)
    wait = waits(world)["ListenerCertificateInvalid"]
    assert wait["object"] == "Secret/kafka-outside"
    assert "Brokers keep the certificate that they have" in wait["message"]
    assert "remove certificate from listener outside" in wait["unblockedBy"]
    assert presented(world) == {f"outside={'a' * 16}"}


def test_until_there_is_a_certificate_brokers_present_spindles() -> None:
    world = running(outside=ListenerSource(problem="The Secret does not exist."))
    assert world.running("broker") == [0, 1, 2]
    assert "listener.name.outside.ssl.keystore.location" not in properties(world)
    assert (
        "brokers present the certificate that Spindle issued"
        in waits(world)["ListenerCertificateInvalid"]["message"]
    )
    world.listener_sources["kafka-outside"] = made("a")
    assert sorted(evicted(passes(world, 80))) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
    assert presented(world) == {f"outside={'a' * 16}"}


def test_a_listener_that_runs_keeps_spindles_until_its_own_can_be_used() -> None:
    world = running(BARE)
    world.cluster["spec"]["listeners"] = [OUTSIDE]
    world.listener_sources = {"kafka-outside": ListenerSource(problem="It has no tls.key (yet).")}
    assert not evicted(passes(world))
    assert "listener.name.outside.ssl.keystore.location" not in properties(world)
    assert "It has no tls.key (yet)." in waits(world)["ListenerCertificateInvalid"]["message"]


def test_the_copy_stays_until_no_broker_uses_it_any_more() -> None:
    world = running(outside=made("a"))
    world.cluster["spec"]["listeners"] = [BARE]
    seen = []
    for _ in range(80):
        world.reconcile()
        copied = "outside" in world.get("Secret", "demo-listeners")["view"]["listeners"]
        used = any(names.ANN_OWN_CERTIFICATES in p["metadata"]["annotations"] for p in world.all("Pod"))
        assert copied or not used
        seen.append(copied)
        world.breathe()
    assert seen[0]
    assert not seen[-1]
    assert "listener.name.outside.ssl.keystore.location" not in properties(world)


@pytest.mark.parametrize("unknown", [True, False])
def test_a_copy_that_is_missing_or_unknown_restarts_nobody(*, unknown: bool) -> None:
    world = running(outside=made("a"))
    world.listener_sources["kafka-outside"] = ListenerSource(problem="The Secret does not exist.")
    if unknown:
        world.unknown = frozenset({"secrets"})
    else:
        del world.objects["Secret", "demo-listeners"]
    assert not evicted(passes(world))
    world.unknown = frozenset()
    world.listener_sources["kafka-outside"] = made("a")
    assert not evicted(passes(world))
    assert ("Secret", "demo-listeners") in world.objects


def test_hosts_that_it_is_not_valid_for_and_its_end_are_told() -> None:
    world = running(outside=made("a", "broker-0.kafka.example.com"))
    wait = waits(world)["ListenerCertificateLacksHosts"]
    assert "broker-1.kafka.example.com, broker-2.kafka.example.com" in wait["message"]
    assert "ListenerCertificateExpiring" not in waits(world)
    world.listener_sources["kafka-outside"] = made("b", issued=world.now - 900, ends=world.now + 100)
    passes(world, 1)
    wait = waits(world)["ListenerCertificateExpiring"]
    assert "expires on" in wait["message"]
    assert "ListenerCertificateLacksHosts" not in waits(world)


@pytest.mark.parametrize(
    ("valid_for", "host", "is_valid"),
    [
        (["a.example.com"], "A.example.com", True),
        (["*.example.com"], "a.example.com", True),
        (["*.example.com"], "a.b.example.com", False),
        (["*.example.com"], "example.com", False),
        (["10.0.0.1"], "10.0.0.1", True),
        (["*.0.0.1"], "10.0.0.1", False),
        (["2001:db8::1"], "2001:0db8::1", True),
        ([], "a", False),
    ],
)
def test_hosts_are_compared_as_clients_do(valid_for: list[str], host: str, is_valid: bool) -> None:
    assert covers(valid_for, host) == is_valid


# -- the Secret -------------------------------------------------------------------------------------------------------


def key_of(kind: str = "ec") -> Any:
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    return (
        ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
    )


def signed(
    name: str,
    key: Any,
    by: tuple[x509.Certificate, Any] | None = None,
    *,
    days: tuple[int, int] = (-1, 90),
    authority: bool = False,
    usage: Any = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by[0].subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + dt.timedelta(days=days[0]))
        .not_valid_after(NOW + dt.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False).add_extension(
            x509.SubjectAlternativeName([x509.DNSName("*.kafka.example.com")]), critical=False
        )
    return builder.sign(by[1] if by else key, hashes.SHA256())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def key_pem(key: Any, *, traditional: bool = False, password: bytes | None = None) -> bytes:
    form = serialization.PrivateFormat
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return bytes(
        key.private_bytes(
            serialization.Encoding.PEM, form.TraditionalOpenSSL if traditional else form.PKCS8, hidden
        )
    )


def secret(chain: bytes, key: bytes, label: str = "demo") -> dict[str, Any]:
    data = {"tls.crt": chain, "tls.key": key}
    return {
        "metadata": {"labels": {names.LABEL_USABLE: label}},
        "data": {name: base64.b64encode(each).decode() for name, each in data.items()},
    }


ROOT_KEY, MIDDLE_KEY, KEY = key_of(), key_of(), key_of()
ROOT = signed("root", ROOT_KEY, authority=True)
MIDDLE = signed("middle", MIDDLE_KEY, (ROOT, ROOT_KEY), authority=True)
LEAF = signed("kafka", KEY, (MIDDLE, MIDDLE_KEY))


@pytest.mark.parametrize("chain", [[LEAF], [LEAF, MIDDLE], [LEAF, MIDDLE, ROOT]], ids=len)
@pytest.mark.parametrize("traditional", [True, False])
def test_a_chain_in_order_is_taken_and_its_key_is_what_kafka_reads(
    chain: list[x509.Certificate], *, traditional: bool
) -> None:
    found = read(secret(pem(*chain), key_pem(KEY, traditional=traditional)), "demo")
    assert found.problem == ""
    assert found.certificate is not None
    assert found.certificate.dns_names == ("*.kafka.example.com",)
    assert found.keystore.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert found.keystore.endswith(pem(*chain))
    assert "PRIVATE" not in repr(found)


def test_the_authorities_behind_a_certificate_tell_it_from_others() -> None:
    marks = set()
    for chain in ([LEAF], [LEAF, MIDDLE], [LEAF, MIDDLE, ROOT]):
        keystore = read(secret(pem(*chain), key_pem(KEY)), "demo")
        assert keystore.certificate is not None
        marks.add(mark(keystore.certificate))
    assert len(marks) == 3


def test_an_rsa_key_as_cert_manager_writes_it_by_default() -> None:
    key = key_of("rsa")
    found = read(secret(pem(signed("kafka", key)), key_pem(key, traditional=True)), "demo")
    assert found.problem == ""
    assert b"BEGIN PRIVATE KEY" in found.keystore


OTHER = key_of("ed25519")


@pytest.mark.parametrize(
    ("chain", "key", "why"),
    [
        (b"", key_pem(KEY), "It has no tls.crt (yet)."),
        (b"", b"", "It has no tls.crt and no tls.key (yet)."),
        (pem(LEAF), key_pem(ROOT_KEY), "does not belong to the first certificate"),
        (pem(MIDDLE, LEAF), key_pem(KEY), "the server's own certificate has to come first"),
        (pem(LEAF, ROOT), key_pem(KEY), "Certificate 2 in tls.crt did not sign certificate 1"),
        (pem(LEAF, MIDDLE, MIDDLE), key_pem(KEY), "Certificate 3 in tls.crt did not sign certificate 2"),
        (pem(signed("x", KEY, days=(-90, -1))), key_pem(KEY), "Its certificate expired on"),
        (pem(signed("x", KEY, days=(1, 2))), key_pem(KEY), "is not valid before"),
        (
            pem(signed("x", KEY, usage=ExtendedKeyUsageOID.CLIENT_AUTH)),
            key_pem(KEY),
            "not valid for servers",
        ),
        (pem(LEAF), key_pem(KEY, password=b"word"), "tls.key is encrypted."),
        (pem(LEAF), b"nonsense", "tls.key is no private key in PEM."),
        (b"nonsense", key_pem(KEY), "tls.crt cannot be parsed"),
        (pem(LEAF), key_pem(OTHER), "neither an elliptic-curve nor an RSA key"),
        (pem(LEAF) * 200, key_pem(KEY), "It is larger than 65536 bytes."),
    ],
    ids=range(14),
)
def test_what_no_client_could_connect_to_is_refused(chain: bytes, key: bytes, why: str) -> None:
    found = read(secret(chain, key), "demo")
    assert why in found.problem
    assert found.certificate is None
    assert not found.keystore


def test_an_authority_of_the_chain_that_has_expired_is_named() -> None:
    middle = signed("middle", MIDDLE_KEY, (ROOT, ROOT_KEY), authority=True, days=(-9, -1))
    leaf = signed("kafka", KEY, (middle, MIDDLE_KEY))
    assert (
        "Certificate 2 in tls.crt expired on" in read(secret(pem(leaf, middle), key_pem(KEY)), "demo").problem
    )


def test_what_is_no_base64_is_refused() -> None:
    spoiled = secret(b"", b"") | {"data": {"tls.crt": "a", "tls.key": "b"}}
    assert read(spoiled, "demo").problem == "It is not base64."


@pytest.mark.parametrize(
    ("label", "is_used"), [("demo", True), (names.ANYONE, True), ("other", False), ("", False)]
)
def test_only_a_secret_that_is_labelled_for_the_cluster_is_used(label: str, *, is_used: bool) -> None:
    """Whatever the spec was when it was accepted: another Secret may have that name by now."""
    found = read(secret(pem(LEAF), key_pem(KEY), label), "demo")
    assert bool(found.keystore) is is_used
    assert is_used or found.problem == "Its owner has not labelled it spindle.dev/usable-by=demo."


def test_the_copy_is_read_back_by_listener() -> None:
    keystore = ca.server_keystore(pem(LEAF, MIDDLE), key_pem(KEY))
    data = dict.fromkeys(file_names("outside", "0123456789abcdef"), base64.b64encode(keystore).decode())
    view = secret_view({"metadata": {"name": "demo-listeners"}, "data": data | {"tls.pem": "x"}})
    assert set(view.listeners) == {"outside"}
    assert view.listeners["outside"] == ca.describe_chain(pem(LEAF, MIDDLE))
    assert [listener_of(key) for key in (*data, "other")] == ["outside", "outside", None]

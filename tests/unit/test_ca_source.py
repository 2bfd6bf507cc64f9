"""An authority that comes from a Secret of the user's own, shaped as cert-manager writes it."""

import base64
import datetime as dt
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from spindle.model.actions import IssueCa, TurnCa
from spindle.model.snapshot import CaSource, Certificate
from spindle_operator import ca
from spindle_operator.ca_source import read
from tests.model.world import YEARS, World

NOW = dt.datetime.now(dt.UTC)


def held(fingerprint: str) -> CaSource:
    return CaSource(Certificate("kafka", (), fingerprint, fingerprint, YEARS))


def steps(world: World, passes: int = 400) -> list[str]:
    taken: list[str] = []
    for _ in range(passes):
        made = world.reconcile()
        taken += [action.step for action in made.actions if isinstance(action, TurnCa)]
        world.breathe()
        if made.settled:
            break
    return taken


def authorities(world: World) -> set[str]:
    return {
        s["view"]["issuer"]
        for s in world.all("Secret")
        if s["metadata"]["name"] != "demo-ca" and s["view"].get("issuer")
    }


def reasons(world: World) -> set[str]:
    return {wait["reason"] for wait in world.cluster["status"]["waiting"]}


def test_a_cluster_is_born_with_the_users_authority_and_not_before_it_is_there() -> None:
    world = World.of(security={"caSecret": "kafka-ca"})
    world.ca_source = CaSource(problem="There is no such Secret.")
    for _ in range(10):
        assert not [action for action in world.reconcile().actions if isinstance(action, IssueCa)]
        world.breathe()
    assert "CaSecretInvalid" in reasons(world)
    assert not world.all("Pod")
    world.ca_source = held("theirs")
    world.settle()
    assert authorities(world) == {"theirs"}
    assert not reasons(world)


def test_another_authority_in_the_secret_takes_the_place_of_the_one_before_in_three_steps() -> None:
    world = World.of(security={"caSecret": "kafka-ca", "clientGraceSeconds": 120})
    world.ca_source = held("first")
    world.settle()
    world.ca_source = held("second")
    assert steps(world) == ["announce", "switch", "retire"]
    assert authorities(world) == {"second"}
    assert steps(world) == []


def test_a_secret_that_changes_during_a_replacement_is_followed_by_a_second_one() -> None:
    world = World.of(security={"caSecret": "kafka-ca", "clientGraceSeconds": 120})
    world.ca_source = held("first")
    world.settle()
    world.ca_source = held("second")
    taken: list[str] = []
    while taken != ["announce"]:
        taken += [a.step for a in world.reconcile().actions if isinstance(a, TurnCa)]
        world.breathe()
    world.ca_source = held("third")
    assert steps(world, 800) == ["switch", "retire", "announce", "switch", "retire"]
    assert authorities(world) == {"third"}


def test_a_secret_that_is_gone_or_of_no_use_leaves_the_cluster_with_what_it_has() -> None:
    world = World.of(security={"caSecret": "kafka-ca"})
    world.ca_source = held("first")
    world.settle()
    world.ca_source = CaSource(problem="There is no such Secret.")
    world.now += 0.95 * YEARS  # even when its own time is nearly over: none is made in its place
    assert steps(world) == []
    assert authorities(world) == {"first"}
    assert reasons(world) == {"CaSecretInvalid"}


def test_a_cluster_with_an_authority_of_its_own_goes_over_and_keeps_what_it_has_when_the_wish_is_gone() -> (
    None
):
    world = World.of(security={"clientGraceSeconds": 120})
    world.settle()
    assert authorities(world) == {"ca"}
    world.cluster["spec"]["security"]["caSecret"] = "kafka-ca"
    world.ca_source = held("theirs")
    assert steps(world) == ["announce", "switch", "retire"]
    assert authorities(world) == {"theirs"}
    del world.cluster["spec"]["security"]["caSecret"]
    world.ca_source = None
    assert steps(world) == []
    world.now += 0.9 * YEARS  # its time is nearly over
    assert steps(world) == ["announce", "switch", "retire"]
    assert authorities(world).isdisjoint({"theirs", "ca"})


# -- what is in a Secret ---------------------------------------------------------------------------------------------


def secret(cert: bytes, key: bytes, **more: bytes) -> dict[str, Any]:
    data = {"tls.crt": cert, "tls.key": key, **more}
    return {
        "metadata": {"name": "kafka-ca"},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def made(
    key: Any, *, authority: bool | None = True, days: int = 90, signer: Any = None, key_id: bytes = b""
) -> tuple[bytes, bytes]:
    """A certificate and its key, PKCS 1 where there is such a thing, as cert-manager writes them by default."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka")])
    issuer = name if signer is None else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - dt.timedelta(days=100))
        .not_valid_after(NOW + dt.timedelta(days=days))
    )
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if key_id:
        builder = builder.add_extension(x509.SubjectKeyIdentifier(key_id), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    certificate = builder.sign(signer or key, algorithm)
    kind = (
        serialization.PrivateFormat.TraditionalOpenSSL
        if isinstance(key, rsa.RSAPrivateKey)
        else serialization.PrivateFormat.PKCS8
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(pem, kind, serialization.NoEncryption())


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize("new_key", [rsa_key, ec_key])
def test_an_authority_of_either_kind_of_key_signs(new_key: Callable[[], Any]) -> None:
    cert, key = made(new_key())
    source = read(secret(cert, key, **{"ca.crt": cert}))
    assert source.problem == ""
    assert source.certificate is not None
    leaf = ca.issue(ca.Pem(cert, key), "orders")
    assert ca.describe(leaf["tls.crt"], leaf["ca.crt"]).issuer == source.certificate.fingerprint


def test_what_an_authority_calls_its_key_is_what_its_certificates_call_it() -> None:
    """Else Java finds no way from one to the other; cert-manager's is the start of a SHA-256, and RFC 5280 suggests a SHA-1."""
    own = ec_key()
    for key_id in (hashlib.sha256(b"key").digest()[:20], b"any name", b""):
        leaf = ca.issue(ca.Pem(*made(own, key_id=key_id)), "orders")["tls.crt"]
        said = x509.load_pem_x509_certificate(leaf).extensions.get_extension_for_class(
            x509.AuthorityKeyIdentifier
        )
        by_default = x509.SubjectKeyIdentifier.from_public_key(own.public_key()).digest
        assert said.value.key_identifier == (key_id or by_default)


@pytest.mark.parametrize(
    ("cert", "says"),
    [
        pytest.param(lambda: (b"", b""), "no tls.crt and no tls.key", id="not issued yet"),
        pytest.param(lambda: made(ec_key(), authority=False), "CA is false", id="a leaf"),
        pytest.param(lambda: made(ec_key(), authority=None), "no basic constraints", id="says nothing"),
        pytest.param(lambda: made(ec_key(), signer=ec_key()), "signed by another", id="an intermediate"),
        pytest.param(lambda: made(ec_key(), days=-1), "expired on", id="over"),
        pytest.param(lambda: made(rsa_key(1024)), "1024 bits", id="weak"),
        pytest.param(lambda: made(ed25519.Ed25519PrivateKey.generate()), "neither", id="another kind of key"),
        pytest.param(lambda: (made(ec_key())[0], made(ec_key())[1]), "does not belong", id="another key"),
        pytest.param(lambda: (b"nonsense", b"nonsense"), "cannot be read", id="nonsense"),
    ],
)
def test_what_cannot_be_used_is_told(cert: Callable[[], tuple[bytes, bytes]], says: str) -> None:
    source = read(secret(*cert()))
    assert source.certificate is None
    assert says in source.problem

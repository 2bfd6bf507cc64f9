"""The cluster's CA: what it signs is accepted by TLS, describes itself, and makes a ready client configuration."""

import datetime as dt
import re
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from spindle.config.server_properties import render
from spindle_operator import ca

HOST = "demo-broker-0.demo-brokers.kafka.svc"


@pytest.fixture(scope="module")
def authority() -> ca.Pem:
    return ca.make_ca("kafka/demo CA")


@pytest.fixture(scope="module")
def secret(authority: ca.Pem) -> dict[str, bytes]:
    return ca.issue(authority, "spindle-node", [HOST, "demo-bootstrap.kafka.svc"])


def certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def days(cert: x509.Certificate) -> int:
    return (cert.not_valid_after_utc - cert.not_valid_before_utc).days


def test_the_authority_may_sign_and_nothing_else(authority: ca.Pem) -> None:
    cert = certificate(authority.cert)
    assert cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert cert.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert days(cert) == 3650
    assert b"PRIVATE KEY" not in repr(authority).encode()


def usages(pem: bytes) -> set[x509.ObjectIdentifier]:
    return set(certificate(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_client_is_no_server_by_any_name(authority: ca.Pem) -> None:
    pem = ca.issue(authority, HOST)["tls.crt"]
    assert usages(pem) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    hosts = certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (host,) = hosts.get_values_for_type(x509.DNSName)
    assert host.endswith(".invalid")
    assert not ca.describe(pem).servers


def test_a_node_is_for_servers_and_clients(secret: dict[str, bytes]) -> None:
    assert set(secret) == {"ca.crt", "tls.crt", "tls.key", "keystore.pem"}
    cert = certificate(secret["tls.crt"])
    assert usages(secret["tls.crt"]) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert ca.describe(secret["tls.crt"]).servers
    assert not cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert days(cert) == 365
    assert cert.not_valid_before_utc < dt.datetime.now(dt.UTC) - dt.timedelta(minutes=30)


def test_the_keystore_is_key_and_chain_in_kafkas_form(secret: dict[str, bytes]) -> None:
    assert secret["keystore.pem"] == secret["tls.key"] + secret["tls.crt"] + secret["ca.crt"]
    assert secret["tls.key"].startswith(b"-----BEGIN PRIVATE KEY-----")
    key = serialization.load_pem_private_key(secret["tls.key"], None)
    assert key.public_key() == certificate(secret["tls.crt"]).public_key()


def test_two_certificates_share_neither_serial_nor_key(authority: ca.Pem) -> None:
    first, second = (ca.issue(authority, "admin") for _ in range(2))
    assert certificate(first["tls.crt"]).serial_number != certificate(second["tls.crt"]).serial_number
    assert first["tls.key"] != second["tls.key"]


def test_a_leaf_never_outlives_its_authority() -> None:
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=3600)
    old = ca.make_ca("old", now=long_ago)
    leaf = certificate(ca.issue(old, "admin")["tls.crt"])
    assert leaf.not_valid_after_utc == certificate(old.cert).not_valid_after_utc


def test_a_long_name_is_cut_for_the_authority_and_refused_for_a_principal(authority: ca.Pem) -> None:
    assert ca.describe(ca.make_ca("n" * 200).cert).common_name == "n" * 64
    with pytest.raises(ValueError, match="64"):
        ca.issue(authority, "n" * 65)


def context(purpose: ssl.Purpose, folder: Path, secret: dict[str, bytes]) -> ssl.SSLContext:
    made = ssl.create_default_context(purpose, cadata=secret["ca.crt"].decode())
    (folder / "keystore.pem").write_bytes(secret["keystore.pem"])
    made.load_cert_chain(folder / "keystore.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Run both ends in memory; raises what either end finds wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1]


def test_both_ends_accept_each_other(tmp_path: Path, secret: dict[str, bytes], authority: ca.Pem) -> None:
    server = context(ssl.Purpose.CLIENT_AUTH, tmp_path, secret)
    client = context(ssl.Purpose.SERVER_AUTH, tmp_path, ca.issue(authority, "admin"))
    peer = shake_hands(server, client, HOST).getpeercert()
    assert peer
    assert peer["subject"] == ((("commonName", "admin"),),)


def test_another_host_or_another_authority_is_refused(
    tmp_path: Path, secret: dict[str, bytes], authority: ca.Pem
) -> None:
    server = context(ssl.Purpose.CLIENT_AUTH, tmp_path, secret)
    client = context(ssl.Purpose.SERVER_AUTH, tmp_path, ca.issue(authority, "admin"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client, "elsewhere.kafka.svc")
    stranger = context(ssl.Purpose.SERVER_AUTH, tmp_path, ca.issue(ca.make_ca("kafka/demo CA"), "admin"))
    stranger.load_verify_locations(cadata=secret["ca.crt"].decode())
    with pytest.raises(ssl.SSLError):
        shake_hands(server, stranger, HOST)


def test_a_certificate_describes_itself(authority: ca.Pem, secret: dict[str, bytes]) -> None:
    root = ca.describe(authority.cert)
    assert root.issuer == root.fingerprint
    assert len(root.fingerprint) == 64
    leaf = ca.describe(secret["tls.crt"], secret["ca.crt"])
    assert leaf.issuer == root.fingerprint
    assert leaf.common_name == "spindle-node"
    assert leaf.dns_names == (HOST, "demo-bootstrap.kafka.svc")
    assert leaf.not_after == certificate(secret["tls.crt"]).not_valid_after_utc.timestamp()


def test_an_authority_of_the_same_name_has_not_signed_it(secret: dict[str, bytes]) -> None:
    assert ca.describe(secret["tls.crt"], ca.make_ca("kafka/demo CA").cert).issuer == ""
    assert ca.describe(secret["tls.crt"]).issuer == ""


@pytest.mark.parametrize(
    "pem", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff\xfe"]
)
def test_what_is_no_certificate_is_a_value_error(pem: bytes, secret: dict[str, bytes]) -> None:
    with pytest.raises(ValueError):
        ca.describe(pem)
    with pytest.raises(ValueError):
        ca.describe(pem, secret["ca.crt"])


def test_a_key_of_another_authority_signs_nothing(authority: ca.Pem) -> None:
    with pytest.raises(ValueError, match="does not belong"):
        ca.issue(ca.Pem(authority.cert, ca.make_ca("other").key), "admin")


def read_properties(text: str) -> dict[str, str]:
    """java.util.Properties.load, as far as its documentation describes lines with a plain key."""
    found = {}
    for line in re.split(r"\r\n|\r|\n", text):
        if not line or line[0] in "#!":
            continue
        key, _, value = line.partition("=")
        units = re.sub(
            r"\\(u[0-9a-fA-F]{4}|.)",
            lambda m: (
                chr(int(m[1][1:], 16))
                if len(m[1]) == 5
                else {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(m[1], m[1])
            ),
            value.lstrip(" \t"),
        )
        found[key] = units.encode("utf-16", "surrogatepass").decode("utf-16")
    return found


def test_client_properties_hold_all_that_a_client_needs(secret: dict[str, bytes]) -> None:
    text = ca.client_properties(secret, "demo-bootstrap.kafka.svc:9092").decode("ascii")
    assert text.count("\n") == len(text.splitlines()) == 8
    found = read_properties(text)
    assert found["bootstrap.servers"] == "demo-bootstrap.kafka.svc:9092"
    assert found["security.protocol"] == "SSL"
    assert found["ssl.endpoint.identification.algorithm"] == "https"
    assert found["ssl.keystore.type"] == found["ssl.truststore.type"] == "PEM"
    assert found["ssl.keystore.key"].encode() == secret["tls.key"]
    assert found["ssl.keystore.certificate.chain"].encode() == secret["tls.crt"] + secret["ca.crt"]
    assert found["ssl.truststore.certificates"].encode() == secret["ca.crt"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_is_read_back(value: str) -> None:
    assert read_properties(render({"key": value})) == {"key": value}

"""A small certificate authority for one Kafka cluster: PEM in, PEM out, no state.

ECDSA on P-256 throughout: keys are generated quickly, and every current Java and OpenSSL supports them. Keys are PKCS 8 without a
passphrase, as Kafka reads them from PEM stores; access to the Secret protects them.
"""

import datetime as dt
import ipaddress
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spindle.config.server_properties import render
from spindle.model.agent_access import Request
from spindle.model.snapshot import Certificate

CA_DAYS: Final = 3650
LEAF_DAYS: Final = 365

_BACKDATED: Final = dt.timedelta(hours=1)  # nodes whose clock is behind must accept a new certificate, too
_LEAST_RSA: Final = 2048
_LARGEST_REQUEST: Final = 4096  # bytes; a request for a P-256 key has about 400
_LONGEST_NAME: Final = 64  # ub-common-name of RFC 5280
# A name that no host can have (RFC 6761). Clients take the common name as a host name unless there is a dNSName: Java's
# sun.security.util.HostnameChecker and OpenSSL's X509_check_host both, and no other kind of name prevents that.
_NO_HOST: Final = "client.spindle.invalid"
# What the library raises, besides ValueError, for malformed certificates.
_MALFORMED: Final = (
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UnsupportedAlgorithm,
)


@dataclass(frozen=True)
class Pem:
    """A certificate and its private key.

    Attributes:
        cert: PEM.
        key: PEM, PKCS 8, not encrypted; kept out of the repr.
    """

    cert: bytes
    key: bytes = field(repr=False)


def make_ca(common_name: str, *, days: int = CA_DAYS, now: dt.datetime | None = None) -> Pem:
    """A new self-signed CA.

    Args:
        common_name: cut to the 64 characters that a common name may have.
        days: validity.
        now: start of the validity; by default the current time.
    """
    now = now or dt.datetime.now(dt.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name[:_LONGEST_NAME])
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(subject_key, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pem(_pem(certificate), _key_pem(key))


def issue(
    ca: Pem,
    common_name: str,
    dns_names: Sequence[str] = (),
    days: int = LEAF_DAYS,
    *,
    trusted: Sequence[bytes] = (),
    now: dt.datetime | None = None,
) -> dict[str, bytes]:
    """Sign a certificate with a new key.

    A certificate with host names is for a node: valid for servers and, since nodes connect to each other, for clients. One without is valid
    for clients only; it gets the name of a host that cannot exist, so that its common name is never taken as a host name.

    Args:
        ca: the CA.
        common_name: the principal (at most 64 characters).
        dns_names: a node's host names, and addresses, for the subject alternative name; none for a client.
        days: validity; never longer than that of the CA.
        trusted: certificates (PEM) of further CAs to trust.
        now: start of the validity; by default the current time.

    Returns:
        Data of the Secret: ``ca.crt`` (all trusted CAs, the signing one first), ``tls.crt``, ``tls.key``
        (PKCS 8), ``keystore.pem`` (key and chain in one).

    Raises:
        ValueError: the CA's PEM cannot be read, its key does not belong to its certificate, or the common
            name is too long.
    """
    now = now or dt.datetime.now(dt.UTC)
    authority, signing_key = _load_ca(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _leaf(
        authority, signing_key, common_name, key.public_key(), days, now, dns_names
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate = _pem(builder.sign(signing_key, hashes.SHA256()))
    issuer, private = _pem(authority), _key_pem(key)
    return {
        "ca.crt": b"".join([issuer, *trusted]),
        "tls.crt": certificate,
        "tls.key": private,
        "keystore.pem": private + certificate + issuer,
    }


def _authority_key(
    authority: x509.Certificate, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.AuthorityKeyIdentifier:
    """The CA certificate's own subject key identifier. Java compares it, and not every CA derives it from the key as RFC 5280 suggests."""
    try:
        own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)


def client_properties(data: Mapping[str, bytes], bootstrap: str) -> bytes:
    """A Kafka client's configuration without further files: it contains stores and key as PEM.

    Args:
        data: of a Secret from `issue`.
        bootstrap: ``host:port``, several separated by commas.
    """
    properties = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": data["keystore.pem"]
        .decode()
        .removeprefix(data["tls.key"].decode()),
        "ssl.keystore.key": data["tls.key"].decode(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": data["ca.crt"].decode(),
    }
    return render(properties).encode("ascii")


def authority_problem(authority: Pem, now: dt.datetime | None = None) -> str:
    """Why a cluster cannot sign with an external CA, as a sentence; empty if it can.

    The CA must be self-signed: names are rights here, so anyone with a certificate from a CA above it could be a super user.
    """
    now = now or dt.datetime.now(dt.UTC)
    try:
        certificate, key = _load_ca(authority)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "Its certificate is not a CA certificate (no basic constraints)."
    except _MALFORMED as error:
        return f"Its certificate cannot be parsed: {error}."
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"It cannot be read: {error}."
    if not constraints.ca:
        return "Its certificate is not a CA certificate (CA is false)."
    if not _signed(certificate, certificate):
        return "Its certificate was signed by another CA."
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < _LEAST_RSA:
        return f"Its key has {key.key_size} bits; RSA needs at least {_LEAST_RSA}."
    if certificate.not_valid_after_utc <= now:
        return f"Its certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}."
    return ""


def server_keystore(chain: bytes, key: bytes, now: dt.datetime | None = None) -> bytes:
    """Key and certificate chain of a server in one PEM text with a PKCS 8 key, as Kafka reads it.

    Args:
        chain: the server's certificate, then each authority that signed the one before it; the last one may be missing.
        key: its private key, in any PEM form, not encrypted.
        now: by default the current time.

    Raises:
        ValueError: why clients could not connect to a server with them, as a sentence.
    """
    now = now or dt.datetime.now(dt.UTC)
    try:
        certificates = x509.load_pem_x509_certificates(chain)
        usable = _good_for_servers(certificates[0])
    except (*_MALFORMED, ValueError) as error:
        raise ValueError(f"tls.crt cannot be parsed: {error}.") from error
    private = _server_key(key)
    first = certificates[0]
    if first.public_key() != private.public_key():
        raise ValueError(
            "tls.key does not belong to the first certificate in tls.crt: the server's own certificate has to come first."
        )
    for number, (one, signer) in enumerate(itertools.pairwise(certificates), 1):
        if not _signed(one, signer):
            raise ValueError(
                f"Certificate {number + 1} in tls.crt did not sign certificate {number}: they are not in order."
            )
    for number, each in enumerate(certificates, 1):
        which = "Its certificate" if number == 1 else f"Certificate {number} in tls.crt"
        if each.not_valid_after_utc <= now:
            raise ValueError(f"{which} expired on {each.not_valid_after_utc:%Y-%m-%d}.")
        if each.not_valid_before_utc > now:
            raise ValueError(f"{which} is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC.")
    if not usable:
        raise ValueError("Its certificate is not valid for servers (extended key usage).")
    return _key_pem(private) + b"".join(map(_pem, certificates))


def _server_key(pem: bytes) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("tls.key is encrypted.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("tls.key is no private key in PEM.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("tls.key is neither an elliptic-curve nor an RSA key.")  # noqa: TRY004 - it is the data that is wrong
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < _LEAST_RSA:
        raise ValueError(f"tls.key has {key.key_size} bits; RSA needs at least {_LEAST_RSA}.")
    return key


def describe(cert_pem: bytes, ca_pem: bytes | None = None) -> Certificate:
    """The public facts of a certificate.

    Args:
        cert_pem: the certificate, the first one if there are several.
        ca_pem: of the presumed signing CA (``ca.crt`` of the same Secret); the certificate itself has only the CA's
            name, which another CA may have as well.

    Returns:
        With an empty ``issuer`` if it is signed neither by that CA nor by itself.

    Raises:
        ValueError: it is not a certificate.
    """
    try:
        return _described(x509.load_pem_x509_certificate(cert_pem), ca_pem)
    except _MALFORMED as error:
        raise ValueError(f"the certificate cannot be parsed: {error}") from error


def describe_chain(pem: bytes) -> Certificate:
    """The public facts of a server's certificate in PEM, and of the authorities behind it.

    Raises:
        ValueError: one of them is not a certificate.
    """
    others = fingerprints(pem)[1:]
    chain = sha256(" ".join(others).encode()).hexdigest() if others else ""
    return replace(describe(pem), chain=chain)


def fingerprints(pem: bytes) -> tuple[str, ...]:
    """SHA-256 fingerprints (hex) of all certificates in a PEM text, in their order.

    Raises:
        ValueError: there is none, or one cannot be parsed.
    """
    try:
        return tuple(_fingerprint(certificate) for certificate in x509.load_pem_x509_certificates(pem))
    except _MALFORMED as error:
        raise ValueError(f"the certificates cannot be parsed: {error}") from error


def _described(certificate: x509.Certificate, ca_pem: bytes | None) -> Certificate:
    candidates = [certificate, *(x509.load_pem_x509_certificates(ca_pem) if ca_pem else ())]
    signer = next((candidate for candidate in candidates if _signed(certificate, candidate)), None)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = names.get_values_for_type(x509.IPAddress)
        dns_names = (*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))
    except x509.ExtensionNotFound:
        dns_names = ()
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        common_name=str(common[0].value) if common else "",
        dns_names=dns_names,
        issuer=_fingerprint(signer) if signer else "",
        fingerprint=_fingerprint(certificate),
        not_after=certificate.not_valid_after_utc.timestamp(),
        issued=(certificate.not_valid_before_utc + _BACKDATED).timestamp(),
        servers=_good_for_servers(certificate),
        key=_key_mark(certificate.public_key()),
    )


def _good_for_servers(certificate: x509.Certificate) -> bool:
    """Whether it is valid for a server; a certificate without extended key usage is valid for all uses (RFC 5280)."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def read_request(pem: bytes, common_name: str) -> Request:
    """A signing request, if it may be granted.

    Args:
        pem: untrusted input.
        common_name: the only allowed name.

    Raises:
        ValueError: it cannot be parsed, requests another name, its key is not on P-256, or it is not signed with that key.
    """
    return Request(pem.decode("ascii"), _key_mark(_requested(pem, common_name)))


def _requested(pem: bytes, common_name: str) -> ec.EllipticCurvePublicKey:
    """The key of such a request."""
    if len(pem) > _LARGEST_REQUEST:
        raise ValueError(f"it is larger than {_LARGEST_REQUEST} bytes")
    try:
        request = x509.load_pem_x509_csr(pem)
        key, signed = request.public_key(), request.is_signature_valid
        common = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (
        *_MALFORMED,
        InvalidSignature,
        TypeError,
    ) as error:  # TypeError: a name with a value of an invalid type
        raise ValueError(f"it cannot be parsed: {error}") from error
    if [attribute.value for attribute in common] != [common_name] or len(list(request.subject)) != 1:
        raise ValueError(f"it requests {request.subject.rfc4514_string()} instead of CN={common_name}")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("its key is not on P-256")  # noqa: TRY004 - it is the data that is wrong
    if not signed:
        raise ValueError("it is not signed with its own key")
    return key


def grant(ca: Pem, pem: bytes, common_name: str, days: int, now: dt.datetime | None = None) -> bytes:
    """Sign a certificate for the key of a signing request; valid for clients only, and for no host.

    Args:
        ca, days, now: as for `issue`.
        pem, common_name: as for `read_request`. Nothing else in the request is used.

    Returns:
        PEM, without the CA's certificate.

    Raises:
        ValueError: as for `issue` and `read_request`.
    """
    now = now or dt.datetime.now(dt.UTC)
    authority, signing_key = _load_ca(ca)
    key = _requested(pem, common_name)
    builder = _leaf(authority, signing_key, common_name, key, days, now)
    return _pem(builder.sign(signing_key, hashes.SHA256()))


def _leaf(
    authority: x509.Certificate,
    signing_key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    common_name: str,
    key: CertificatePublicKeyTypes,
    days: int,
    now: dt.datetime,
    dns_names: Sequence[str] = (),
) -> x509.CertificateBuilder:
    """A certificate of a node (with host names) or of a client (without)."""
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] if dns_names else []
    hosts = [_general(name) for name in dns_names or (_NO_HOST,)]
    return (
        _builder(_name(common_name), authority.subject, key, now, days, authority.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([*usages, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(_authority_key(authority, signing_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    )


def _key_mark(key: CertificatePublicKeyTypes) -> str:
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return sha256(encoded).hexdigest()


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    now: dt.datetime,
    days: int,
    latest: dt.datetime | None = None,
) -> x509.CertificateBuilder:
    end = now + dt.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(min(end, latest) if latest else end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load_ca(ca: Pem) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey]:
    certificate = x509.load_pem_x509_certificate(ca.cert)
    try:
        key = serialization.load_pem_private_key(ca.key, password=None)
    except TypeError as error:
        raise ValueError("the CA's key is encrypted") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the CA's key is neither an elliptic-curve nor an RSA key")  # noqa: TRY004 - it is the data that is wrong
    if certificate.public_key() != key.public_key():
        raise ValueError("the CA's key does not belong to its certificate")
    return certificate, key


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()

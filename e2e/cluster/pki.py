"""Certificates and kubeconfigs of the testbed's control plane. They are valid as long as the testbed exists."""

import base64
import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = dt.timedelta(days=365)
_USAGE_OFF: Final = dict.fromkeys(
    (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


class Authority:
    """A certificate authority and everything that it issues, as files in one folder.

    ``ca.crt`` is its certificate; its own key is never written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "spindle-testbed")])
        certificate = (
            _begin(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **_USAGE_OFF),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, name: str, *, group: str | None = None, hosts: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Issue a certificate: for a server if hosts are given, else for a client.

        Args:
            file: base name of the two files.
            name: common name; for a client, the user.
            group: organisation; for a client, the user's group.
            hosts: host names and IP addresses of a server.

        Returns:
            The files of the certificate and of its key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            names.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _begin(x509.Name(names), self._name, key.public_key())
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **_USAGE_OFF),
                critical=True,
            )
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        certificate = self.folder / f"{file}.crt"
        certificate.write_bytes(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        return certificate, write_key(self.folder / f"{file}.key", key)

    def kubeconfig(self, file: str, server: str, name: str, group: str | None = None) -> Path:
        """Issue a client certificate and write ``<file>.conf``, a kubeconfig that contains it, for that server."""
        certificate, key = self.issue(file, name, group=group)
        path = self.folder / f"{file}.conf"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "spindle-testbed",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server, "certificate-authority-data": _base64(self.certificate)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _base64(certificate),
                        "client-key-data": _base64(key),
                    },
                }
            ],
            "contexts": [{"name": "spindle-testbed", "context": {"cluster": "testbed", "user": name}}],
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        path.chmod(0o600)
        return path

    def service_account_keys(self) -> tuple[Path, Path]:
        """Make the key pair that signs service accounts' tokens; returns the files (private, public)."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = self.folder / "sa.pub"
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return write_key(self.folder / "sa.key", key), public


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> Path:
    """Write a private key as unencrypted PKCS8 that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

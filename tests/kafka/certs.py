"""Certificates for the tests: the project's own CA, with addresses where the operator would put host names."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spindle.api import names
from spindle_agent.broker import keys
from spindle_operator import ca


class Ca:
    def __init__(self) -> None:
        self.pem = ca.make_ca("test-ca")
        self._certificate = x509.load_pem_x509_certificate(self.pem.cert)
        key = serialization.load_pem_private_key(self.pem.key, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def client(self, folder: Path, common_name: str) -> Path:
        """What the operator puts into a client's Secret, as files."""
        return _write(folder, ca.issue(self.pem, common_name))

    def agent(self, folder: Path, node: str) -> Path:
        """What an agent has, as files: its own key, and what the operator made of its request."""
        key = keys.parse(keys.make(node))
        certificate = ca.grant(self.pem, key.request, names.agent_principal(node), 7)
        return _write(folder, {"ca.crt": self.pem.cert, "tls.crt": certificate, "tls.key": key.private})

    def node(self, folder: Path, common_name: str, address: str) -> Path:
        """What a node's Secret holds; the nodes of these tests have addresses and no names."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
            )
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _write(
            folder,
            {
                "ca.crt": self.pem.cert,
                "tls.crt": certificate,
                "tls.key": private,
                "keystore.pem": private + certificate,
            },
        )


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder

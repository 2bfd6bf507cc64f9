"""The agent's private key and its certificate signing request.

The library that creates them would cost the agent about 9 MB of memory permanently, so a separate process creates them once:
``python -m spindle_agent.broker.keys <node>`` writes key and signing request to its output, a pipe.
"""

import base64
import contextlib
import os
import ssl
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spindle.api import names

_BEGINS: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_PUBLIC: Final = "PUBLIC KEY"


@dataclass(frozen=True)
class AgentKey:
    """One elliptic-curve key (P-256).

    Attributes:
        private: PEM, PKCS 8; kept out of the repr.
        request: certificate signing request in the name of this node's agent, PEM.
        public: SubjectPublicKeyInfo, DER, as contained in every certificate for this key (RFC 5280).
    """

    private: bytes = field(repr=False)
    request: bytes
    public: bytes

    def fits(self, certificate: str) -> bool:
        """Whether a certificate (PEM) is for this key."""
        try:
            return self.public in ssl.PEM_cert_to_DER_cert(certificate)
        except ValueError:
            return False


def load_or_make(node: str, file: Path | None) -> AgentKey:
    """Load the key from a file, or create one and store it there.

    Args:
        node: name of the agent's node.
        file: path in memory (a tmpfs), where the key survives a container restart; None to store it nowhere.

    Raises:
        OSError, subprocess.CalledProcessError, ValueError: no key can be created.
    """
    if file is not None:
        with contextlib.suppress(OSError, ValueError):
            return parse(file.read_bytes())
    command = [sys.executable, "-m", "spindle_agent.broker.keys", node]
    # Without a timeout: it takes long on a node that is short of CPU, and the pod's startup probe ends a process that hangs.
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    key = parse(made)
    if file is not None:
        with contextlib.suppress(OSError):  # then it is not stored
            file.unlink(missing_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(made)
    return key


def parse(text: bytes) -> AgentKey:
    """Parse the output of `make`. Raises ValueError if it is not that."""
    private, begins, rest = text.partition(_BEGINS)
    request, ends, public = rest.partition(f"-----BEGIN {_PUBLIC}-----".encode())
    if not (private and begins and ends):
        raise ValueError("it contains no key")
    encoded = public.replace(f"-----END {_PUBLIC}-----".encode(), b"")
    return AgentKey(private, begins + request, base64.b64decode(encoded))


def make(node: str) -> bytes:
    """Create a key; returns the key, its signing request and its public key, all PEM."""
    # Imported only in the process that creates a key, see above.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names.agent_principal(node))])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return b"".join(
        (
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            request.public_bytes(serialization.Encoding.PEM),
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(make(sys.argv[1]))

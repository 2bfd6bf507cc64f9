"""An issuer of tokens: oidc-provider from npm behind HTTPS, and tokens that it would never make."""

import base64
import http.client
import json
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from e2e.cluster.build import artefact
from tests.kafka.certs import Ca
from tests.kafka.node import wait_for

VERSION: Final = "8.8.1"  # the newest that runs on Node 20
ADDRESS: Final = "127.0.0.1"


def oidc_provider() -> Path:
    """The folder with its node_modules."""

    def install(folder: Path) -> None:
        options = ("--no-fund", "--no-audit", "--ignore-scripts", "--prefix", str(folder))
        subprocess.run(["npm", "install", *options, f"oidc-provider@{VERSION}"], check=True, timeout=300)

    return artefact("oidc-provider", VERSION, "npm", install)


class Issuer:
    """A running one.

    Attributes:
        url: the issuer's, in the claim ``iss``.
        bundle: the authority of its HTTPS certificate, PEM.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"https://{ADDRESS}:{port}"
        self.jwks = f"{self.url}/jwks"
        authority = Ca()
        self.bundle = authority.pem.cert.decode()
        self._context = ssl.create_default_context(cadata=self.bundle)
        self._files = authority.node(folder, "issuer", ADDRESS)
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        script = Path(__file__).with_name("issuer.mjs")
        pair = (str(self._files / "tls.key"), str(self._files / "tls.crt"))
        command = ["node", str(script), str(oidc_provider()), ADDRESS, str(self._port), *pair]
        with (self._files / "issuer.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command], stdout=log, stderr=subprocess.STDOUT
            )
        wait_for("the issuer", self._answers)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def token(self, client: str, audience: str = "kafka") -> str:
        """A token of the client-credentials grant: its ``sub`` is the client's id."""
        login = base64.b64encode(f"{client}:{client}-secret".encode()).decode()
        form = f"grant_type=client_credentials&scope=produce&resource=urn:{audience}"
        return str(self._ask("POST", "/token", form, Authorization=f"Basic {login}")["access_token"])

    def _ask(self, method: str, path: str, body: str = "", **headers: str) -> Any:
        connection = http.client.HTTPSConnection(ADDRESS, self._port, timeout=10, context=self._context)
        try:
            form = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
            connection.request(method, path, body, {**form, **headers})
            return json.load(connection.getresponse())
        finally:
            connection.close()

    def _answers(self) -> bool:
        try:
            return bool(self._ask("GET", "/jwks")["keys"])
        except OSError:
            return False


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a token, unverified."""
    text = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def forged(token: str, **claims: Any) -> str:
    """The same token with other claims, signed with a key of somebody else under the issuer's key id."""
    header, made = token.split(".", maxsplit=1)[0], {**claims_of(token), **claims}
    key = rsa.generate_private_key(65537, 2048)
    signed = f"{header}.{_encoded(json.dumps(made).encode())}"
    return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def unsigned(token: str, **claims: Any) -> str:
    """The same with ``alg: none``."""
    header = _encoded(b'{"alg":"none"}')
    return (
        f"{header}.{_encoded(json.dumps({**claims_of(token), **claims, 'exp': time.time() + 60}).encode())}."
    )


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def has_node() -> bool:
    return shutil.which("npm") is not None and shutil.which("node") is not None

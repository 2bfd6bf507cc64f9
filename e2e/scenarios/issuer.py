"""An issuer of tokens in the cluster: its keys over HTTPS from a pod, and tokens that the scenario signs."""

import base64
import json
import time
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from spindle_operator import ca

NAME: Final = "issuer"
_PORT: Final = 8443
_FOLDER: Final = "/etc/issuer"
# In the pod: one document for every path.
_SERVE: Final = f"""
import http.server, pathlib, ssl
folder = pathlib.Path("{_FOLDER}")
class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (folder / "jwks.json").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", {_PORT}), Keys)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


class Issuer:
    """Keys, and the objects that offer them.

    Attributes:
        oauth: the field of a listener that accepts its tokens.
    """

    def __init__(self, namespace: str) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        authority = ca.make_ca(NAME)
        host = f"{NAME}.{namespace}.svc"
        self._pair = ca.issue(authority, NAME, [host])
        self._url = f"https://{host}:{_PORT}"
        self.oauth = {
            "issuer": self._url,
            "jwks": f"{self._url}/certs",
            "audience": "kafka",
            "caBundle": authority.cert.decode(),
        }

    def objects(self, image: str, node: str) -> list[dict[str, Any]]:
        """A Secret, a Service and a pod on a node, with an image that has Python."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": "1",
            "n": _encoded(numbers.n.to_bytes(256, "big")),
            "e": _encoded(numbers.e.to_bytes(3, "big")),
        }
        files = {
            "jwks.json": json.dumps({"keys": [key]}).encode(),
            "tls.crt": self._pair["tls.crt"],
            "tls.key": self._pair["tls.key"],
        }
        container = {
            "name": "main",
            "image": image,
            "command": ["/opt/spindle/venv/bin/python", "-c", _SERVE],
            "readinessProbe": {"tcpSocket": {"port": _PORT}},
            "volumeMounts": [{"name": "files", "mountPath": _FOLDER}],
        }
        return [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": NAME},
                "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": NAME},
                "spec": {"selector": {"app": NAME}, "ports": [{"port": _PORT}]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": NAME, "labels": {"app": NAME}},
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                    "volumes": [{"name": "files", "secret": {"secretName": NAME}}],
                },
            },
        ]

    def token(self, principal: str, audience: str = "kafka") -> str:
        """A token that is valid for five minutes."""
        now = int(time.time())
        claims = {"iss": self._url, "aud": audience, "sub": principal, "iat": now, "exp": now + 300}
        header = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

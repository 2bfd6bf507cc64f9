"""What the operator writes into Secrets, with a stand-in for the API server."""

import base64
from typing import Any

import pytest

from spindle.model.actions import KeepPassword
from spindle_operator import ca
from spindle_operator.certificates import Certificates

CLUSTER = {"metadata": {"name": "demo", "namespace": "team-a", "uid": "u"}}


class FakeKube:
    """The Secrets of the CA and of a user."""

    def __init__(self, password: bytes) -> None:
        authority = ca.make_ca("CA", days=10)
        self.secrets = {
            "demo-ca": {"ca.crt": authority.cert, "ca.key": authority.key},
            "demo.user.ann": {"password": password},
        }

    async def get(self, _: Any, namespace: str, name: str) -> dict[str, Any]:
        assert namespace == "team-a"
        data = {key: base64.b64encode(value).decode() for key, value in self.secrets[name].items()}
        return {"metadata": {"name": name, "uid": "s"}, "data": data}


class FakeWriter:
    def __init__(self) -> None:
        self.written: list[Any] = []

    async def put(self, secret: Any, _: Any) -> None:
        self.written.append(secret)


async def keep(password: bytes) -> list[Any]:
    writer = FakeWriter()
    made = Certificates(FakeKube(password), CLUSTER, writer)  # type: ignore[arg-type]
    metadata = {"name": "demo.user.ann", "namespace": "team-a"}
    await made.keep_password(KeepPassword(metadata=metadata, user="ann", trusted=(), seen={"uid": "s"}))
    return writer.written


async def test_a_password_that_is_not_text_fails_this_action_only() -> None:
    """The executor takes RuntimeError as the failure of one action; another error would end every pass of the cluster."""
    with pytest.raises(
        RuntimeError, match=r"Secret demo\.user\.ann is not UTF-8.*spindle user password ann --new"
    ):
        await keep(b"\xff\xfe")


async def test_a_password_is_kept_as_it_is() -> None:
    (secret,) = await keep('zä"\\'.encode())
    login = base64.b64decode(secret["data"]["sasl.jaas.config"]).decode()
    assert login.endswith('username="ann" password="zä\\"\\\\";')

"""``spindle user``: the password of a KafkaUser."""

import base64
import secrets
import sys
from typing import Annotated, Final

import typer

from spindle.api import names
from spindle.api.user import KafkaUser
from spindle_cli import objects
from spindle_cli.kube import ConflictError, Kube, KubeError
from spindle_cli.objects import Objects
from spindle_cli.screen import say
from spindle_cli.terminal import Namespace, sentences

app: Final = typer.Typer(no_args_is_help=True, help="KafkaUsers: password.")
_BYTES: Final = 32


@app.command()
def password(
    user: Annotated[str, typer.Argument(help="KafkaUser with authentication: scram.")],
    namespace: Namespace = None,
    new: Annotated[bool, typer.Option("--new", help="Replace it by a new one, and print that.")] = False,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Replace it by the first line of standard input.")
    ] = False,
) -> None:
    """Print the password of a KafkaUser, or replace it."""
    with sentences():
        kube = Kube.connect(namespace)
        found = KafkaUser.parse(kube.raw("KafkaUser", user))
        secret = secret_of(found)
        if not (stdin or new):
            say(_stored(kube, secret)[0])
            return
        wanted = accepted(sys.stdin.readline().rstrip("\r\n")) if stdin else secrets.token_urlsafe(_BYTES)
        _replace(kube, secret, wanted)
        say(
            f"The password of {user} is replaced in Secret {secret}; Spindle sets it in Kafka within seconds.",
            err=True,
        )
        if not stdin:
            say(wanted)


def secret_of(user: KafkaUser) -> str:
    """The Secret with the user's password.

    Raises:
        KubeError: the user has a certificate instead.
    """
    name = user.metadata.name
    secret = names.user_secret(user.spec.cluster, name)
    if user.spec.authentication != "scram":
        raise KubeError(
            f"KafkaUser {name} has no password: it authenticates with a certificate, which is in Secret {secret} (tls.crt, tls.key). "
            "For a password, create a KafkaUser with authentication: scram"
        )
    return secret


def accepted(wanted: str) -> str:
    """The password, if Spindle can set it.

    Raises:
        KubeError: it is empty.
    """
    if not wanted:
        raise KubeError(
            "standard input has no password in its first line: printf '%s\\n' \"$PASSWORD\" | spindle user password NAME --stdin"
        )
    return wanted


def _stored(kube: Kube, secret: str) -> tuple[str, str]:
    """The password and the Secret's resourceVersion."""
    found = Objects(kube).find(objects.SECRET, secret)
    value = ((found or {}).get("data") or {}).get("password")
    if found is None or not value:
        raise KubeError(
            f"Secret {secret} has no password yet. Spindle writes it when Kafka answers; see the condition Ready: kubectl describe sku"
        )
    return base64.b64decode(value).decode(), str(found["metadata"]["resourceVersion"])


def _replace(kube: Kube, secret: str, wanted: str) -> None:
    """Write another password into the Secret, unless it changed since it was read."""
    _, version = _stored(kube, secret)
    body = {
        "metadata": {"resourceVersion": version},
        "data": {"password": base64.b64encode(wanted.encode()).decode()},
    }
    try:
        Objects(kube).patch(objects.SECRET, secret, body)
    except ConflictError as error:
        raise KubeError(
            f"Secret {secret} changed meanwhile; nothing was replaced: run the command again"
        ) from error

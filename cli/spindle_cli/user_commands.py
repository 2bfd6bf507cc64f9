"""``spindle user``: the password of a KafkaUser."""

import base64
import secrets
import sys
from typing import Annotated, Final

import typer

from spindle.api import names
from spindle.api.printable import printable
from spindle.api.user import KafkaUser
from spindle_cli import completion, objects
from spindle_cli.abandon import abandon_user
from spindle_cli.copied import command
from spindle_cli.kube import ConflictError, Kube, KubeError, parsed
from spindle_cli.objects import Objects
from spindle_cli.screen import say
from spindle_cli.terminal import Namespace, sentences

app: Final = typer.Typer(no_args_is_help=True, help="KafkaUsers: password, abandon.")
app.command("abandon")(abandon_user)
_BYTES: Final = 32


@app.command()
def password(
    user: Annotated[
        str, typer.Argument(autocompletion=completion.users, help="KafkaUser with authentication: scram.")
    ],
    namespace: Namespace = None,
    new: Annotated[bool, typer.Option("--new", help="Replace it by a new one, and print that.")] = False,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Replace it by the first line of standard input.")
    ] = False,
) -> None:
    """Print the password of a KafkaUser, or replace it."""
    if new and stdin:
        raise typer.BadParameter("--new and --stdin exclude each other: one password can be set")
    with sentences():
        kube = Kube.connect(namespace)
        found = parsed(KafkaUser, kube.raw("KafkaUser", user))
        secret = secret_of(found)
        if not (stdin or new):
            print_exactly(user, _stored(kube, secret)[0])
            return
        wanted = accepted(sys.stdin.buffer.readline()) if stdin else secrets.token_urlsafe(_BYTES).encode()
        _replace(kube, secret, wanted)
        say(
            f"The password of {user} is replaced in Secret {secret}; Spindle sets it in Kafka within seconds.",
            err=True,
        )
        if not stdin:
            print_exactly(user, wanted)


def print_exactly(user: str, stored: bytes) -> None:
    """Print a password and a line end, without changing a byte of it.

    Raises:
        KubeError: standard output is a terminal, which would not show some of its characters or would obey them.
    """
    if sys.stdout.isatty() and not _is_shown(stored):
        raise KubeError(
            f"the password of {user} has characters that a terminal does not show, so it is not printed here. To get it unchanged, write it to a "
            f"file: (umask 077; {command(f'spindle user password {user}')} > FILE). To see its bytes: {command(f'spindle user password {user}')} | od -c"
        )
    typer.echo(stored)


def _is_shown(stored: bytes) -> bool:
    """Whether a terminal shows every character, and obeys none."""
    try:
        text = stored.decode()
    except UnicodeDecodeError:
        return False
    return printable(text) == text


def secret_of(user: KafkaUser) -> str:
    """The Secret with the user's password.

    Raises:
        KubeError: the user has a certificate instead.
    """
    name = user.metadata.name
    secret = names.user_secret(user.spec.cluster, name)
    if user.spec.authentication == "oauth":
        raise KubeError(f"KafkaUser {name} has no password: it authenticates with tokens of an issuer")
    if user.spec.authentication != "scram":
        raise KubeError(
            f"KafkaUser {name} has no password: it authenticates with a certificate, which is in Secret {secret} (tls.crt, tls.key). "
            "For a password, create a KafkaUser with authentication: scram"
        )
    return secret


def accepted(line: bytes) -> bytes:
    """The password in a line, without the line end, if Spindle can set it.

    Raises:
        KubeError: it is empty, or not UTF-8.
    """
    wanted = line.removesuffix(b"\n").removesuffix(b"\r")
    if not wanted:
        raise KubeError(
            "standard input has no password in its first line: printf '%s\\n' \"$PASSWORD\" | spindle user password NAME --stdin"
        )
    try:
        wanted.decode()
    except UnicodeDecodeError as error:
        raise KubeError(
            "the password on standard input is not UTF-8, and Kafka takes no other; nothing was replaced"
        ) from error
    return wanted


def _stored(kube: Kube, secret: str) -> tuple[bytes, str]:
    """The password and the Secret's resourceVersion."""
    found = Objects(kube).find(objects.SECRET, secret)
    value = ((found or {}).get("data") or {}).get("password")
    if found is None or not value:
        raise KubeError(
            f"Secret {secret} has no password yet. Spindle writes it when Kafka answers; see the condition Ready: kubectl describe sku"
        )
    return base64.b64decode(value), str(found["metadata"]["resourceVersion"])


def _replace(kube: Kube, secret: str, wanted: bytes) -> None:
    """Write another password into the Secret, unless it changed since it was read."""
    _, version = _stored(kube, secret)
    body = {
        "metadata": {"resourceVersion": version},
        "data": {"password": base64.b64encode(wanted).decode()},
    }
    try:
        Objects(kube).patch(objects.SECRET, secret, body)
    except ConflictError as error:
        raise KubeError(
            f"Secret {secret} changed meanwhile; nothing was replaced: run the command again"
        ) from error

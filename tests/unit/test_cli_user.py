"""``spindle user password``: the password comes out as it is stored, byte for byte, or not at all."""

import base64
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from spindle_cli import main, user_commands
from spindle_cli.kube import Kube, KubeError

RUNNER = CliRunner()
LINE = ["user", "password", "orders"]
NOT_SHOWN = [b"a\x1b[2Jb", b"caf\xe9", "a\u200bb".encode(), b"two\nlines", b"tab\t", b"\x00"]


class FakeKube:
    namespace = "default"

    def raw(self, kind: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"cluster": "demo", "authentication": "scram"}}


class FakeObjects:
    """A namespace with one Secret."""

    stored = b""

    def __init__(self, kube: Any) -> None:
        return

    def find(self, kind: Any, name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "resourceVersion": "7"},
            "data": {"password": base64.b64encode(FakeObjects.stored).decode()},
        }

    def patch(self, kind: Any, name: str, body: dict[str, Any]) -> None:
        FakeObjects.stored = base64.b64decode(body["data"]["password"])


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    monkeypatch.setattr(Kube, "connect", lambda namespace=None: FakeKube())
    monkeypatch.setattr(user_commands, "Objects", FakeObjects)

    def store(password: bytes) -> None:
        FakeObjects.stored = password

    return store


@pytest.mark.parametrize("password", [b"simple", "gr\u00f6\u00dfer \u65e5\u672c".encode(), *NOT_SHOWN])
def test_a_program_gets_every_byte(stores: Callable[[bytes], None], password: bytes) -> None:
    stores(password)

    done = RUNNER.invoke(main.app, LINE)

    assert (done.exit_code, done.stdout_bytes) == (0, password + b"\n")


@pytest.mark.parametrize("password", NOT_SHOWN)
def test_a_terminal_gets_no_other_password_than_the_stored_one(
    stores: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch, password: bytes
) -> None:
    stores(password)
    terminal = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)

    with pytest.raises(KubeError, match="spindle user password orders > FILE"):
        user_commands.print_exactly("orders", password)
    assert terminal.buffer.getvalue() == b""

    user_commands.print_exactly("orders", b"simple")
    assert terminal.buffer.getvalue() == b"simple\n"


@pytest.mark.parametrize(
    ("typed", "password"),
    [
        (b"mine\n", b"mine"),
        (b"mine\r\nnext\n", b"mine"),
        (b"mine", b"mine"),
        (b" a \x1b b \n", b" a \x1b b "),
    ],
)
def test_the_first_line_of_standard_input_is_stored_unchanged(
    stores: Callable[[bytes], None], typed: bytes, password: bytes
) -> None:
    stores(b"caf\xe9")  # an old password that is not text can be replaced

    done = RUNNER.invoke(main.app, [*LINE, "--stdin"], input=typed)

    assert done.exit_code == 0, done.output
    assert FakeObjects.stored == password
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("typed", "sentence"), [(b"caf\xe9\n", "is not UTF-8"), (b"\n", "no password"), (b"", "no password")]
)
def test_what_cannot_be_a_password_is_refused_in_one_sentence(
    stores: Callable[[bytes], None], typed: bytes, sentence: str
) -> None:
    stores(b"before")

    done = RUNNER.invoke(main.app, [*LINE, "--stdin"], input=typed)

    assert done.exit_code == 1
    assert sentence in done.stderr
    assert FakeObjects.stored == b"before"


def test_two_sources_of_a_new_password_are_a_wrong_command_line(stores: Callable[[bytes], None]) -> None:
    stores(b"before")

    done = RUNNER.invoke(main.app, [*LINE, "--new", "--stdin"], input="mine\n")

    assert done.exit_code == 2
    assert FakeObjects.stored == b"before"


def test_a_new_password_is_printed(stores: Callable[[bytes], None]) -> None:
    stores(b"before")

    done = RUNNER.invoke(main.app, [*LINE, "--new"])

    assert done.exit_code == 0
    assert done.stdout_bytes == FakeObjects.stored + b"\n"
    assert FakeObjects.stored != b"before"

"""Texts with which Spindle asks for a user's consent, and their counterparts that find the consent in them again.

The command line reads them, so that a user accepts exactly what the message names.
"""

import re
from dataclasses import dataclass
from typing import Final

_LOSS: Final = re.compile(
    r'spec\.acceptDataLoss\.disks of KafkaBroker (?P<broker>\S+): \{"name": "(?P<disk>[^"]+)", "token": "(?P<token>[^"]+)"\}'
)
_RESTART: Final = re.compile(
    r"spindle broker accept-unavailable (?P<broker>\S+) --token (?P<token>[0-9a-f]+)"
)


@dataclass(frozen=True)
class NamedLoss:
    """A loss that the condition DataAtRisk names.

    Attributes:
        broker: name of the KafkaBroker.
        text: the part of the message about this loss.
    """

    broker: str
    disk: str
    token: str
    text: str


def loss_entry(broker: str, disk: str, token: str) -> str:
    """How a message names the consent to a loss."""
    return (
        f"accept the loss: spindle disk accept-loss {broker} {disk}, or this entry in spec.acceptDataLoss.disks of KafkaBroker {broker}: "
        f'{{"name": "{disk}", "token": "{token}"}}'
    )


def losses_named_in(message: str) -> list[NamedLoss]:
    """The losses that a message of DataAtRisk names."""
    found, start = [], 0
    for each in _LOSS.finditer(message):
        found.append(
            NamedLoss(each["broker"], each["disk"], each["token"], message[start : each.end()].strip())
        )
        start = each.end()
    return found


def restart_command(broker: str, token: str) -> str:
    """The command that permits a restart although partitions reject writes meanwhile."""
    return f"spindle broker accept-unavailable {broker} --token {token}"


def restart_named_in(message: str) -> tuple[str, str] | None:
    """Broker and token of `restart_command` in a message; None if it has none."""
    found = _RESTART.search(message)
    return (found["broker"], found["token"]) if found else None

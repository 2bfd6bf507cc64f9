"""Orders about the controllers' quorum: one voter more, or one less."""

import base64
import uuid
from typing import Final

from spindle.cluster import names
from spindle_operator.answers import expect
from spindle_operator.connection import Connection
from spindle_operator.messages import AddRaftVoterRequest, RemoveRaftVoterRequest

_DUPLICATE_VOTER: Final = 126
_VOTER_NOT_FOUND: Final = 127


def add_voter(link: Connection, cluster_id: str, node_id: int, directory_id: str, host: str) -> None:
    """Make a controller that reads along a voter; one that is a voter already is no error.

    The answer comes when that is committed. One that does not come in time leaves it open; the quorum tells the next look.
    """
    listener = AddRaftVoterRequest.Listener(
        name=names.LISTENER_CONTROLLER, host=host, port=names.PORT_CONTROLLER
    )
    answer = link.send(
        AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=link.timeout_ms,
            voter_id=node_id,
            voter_directory_id=_uuid(directory_id),
            listeners=[listener],
        ),
        link.any_broker(),
    )
    if answer.error_code != _DUPLICATE_VOTER:
        expect(answer.error_code, answer.error_message)


def remove_voter(link: Connection, cluster_id: str, node_id: int, directory_id: str) -> None:
    """Take a voter out of the quorum, by its id and its disk's; one that is none any more is no error."""
    answer = link.send(
        RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=_uuid(directory_id)
        ),
        link.any_broker(),
    )
    if answer.error_code != _VOTER_NOT_FOUND:
        expect(answer.error_code, answer.error_message)


def _uuid(text: str) -> uuid.UUID:
    """A directory id as the library's messages take it."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))

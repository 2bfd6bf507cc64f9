"""Changes of the controllers' quorum: add or remove one voter."""

import base64
import uuid
from typing import Final

from spindle.api import names
from spindle_operator.answers import expect
from spindle_operator.connection import Connection
from spindle_operator.messages import AddRaftVoterRequest, RemoveRaftVoterRequest

_DUPLICATE_VOTER: Final = 126
_VOTER_NOT_FOUND: Final = 127


def add_voter(link: Connection, cluster_id: str, node_id: int, directory_id: str, host: str) -> None:
    """Make an observer a voter (AddRaftVoter, KIP-853); one that is a voter already is not an error.

    The response arrives after the commit. If it does not arrive in time, the outcome is unknown; the next pass reads the quorum.
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
    """Remove a voter by id and directory id (RemoveRaftVoter, KIP-853); one that is no longer a voter is not an error."""
    answer = link.send(
        RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=_uuid(directory_id)
        ),
        link.any_broker(),
    )
    if answer.error_code != _VOTER_NOT_FOUND:
        expect(answer.error_code, answer.error_message)


def _uuid(text: str) -> uuid.UUID:
    """A directory id in the type of the library's messages."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))

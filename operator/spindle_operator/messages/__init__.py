"""Messages of Kafka's protocol that kafka-python 3.0.12 lacks; the JSON files next to this one define their fields.

The library builds its own in the same way (``ApiMessage`` with a schema from a package); brokers forward them to the active
controller.
"""

from kafka.protocol.api_message import ApiMessage


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):
    """Unregister a broker, whether or not it has replicas (API key 64)."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):
    """Result of UnregisterBroker."""


class AddRaftVoterRequest(ApiMessage, load_json=__package__):
    """Add a voter to the quorum; the response follows the commit."""


class AddRaftVoterResponse(ApiMessage, load_json=__package__):
    """Result of AddRaftVoter."""


class RemoveRaftVoterRequest(ApiMessage, load_json=__package__):
    """Remove a voter from the quorum; the response follows the commit."""


class RemoveRaftVoterResponse(ApiMessage, load_json=__package__):
    """Result of RemoveRaftVoter."""

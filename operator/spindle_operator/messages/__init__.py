"""Messages of Kafka's protocol that kafka-python 3.0.12 lacks; the JSON files beside this one are their fields.

The library makes its own in the same way (``ApiMessage`` with a schema from a package); brokers pass them on to the leader of
the controllers.
"""

from kafka.protocol.api_message import ApiMessage


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):
    """Have the controllers forget a broker, whether or not it has replicas (API key 64)."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):
    """Whether they did."""


class AddRaftVoterRequest(ApiMessage, load_json=__package__):
    """Add a voter to the quorum; answered once that is committed."""


class AddRaftVoterResponse(ApiMessage, load_json=__package__):
    """Whether it was."""


class RemoveRaftVoterRequest(ApiMessage, load_json=__package__):
    """Take a voter out of the quorum; answered once that is committed."""


class RemoveRaftVoterResponse(ApiMessage, load_json=__package__):
    """Whether it was."""

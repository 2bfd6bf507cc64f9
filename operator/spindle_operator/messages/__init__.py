"""Messages of Kafka's protocol that kafka-python 3.0.12 lacks; the JSON files beside this one are their fields.

The library makes its own in the same way (``ApiMessage`` with a schema from a package).
"""

from kafka.protocol.api_message import ApiMessage


class UnregisterBrokerRequest(ApiMessage, load_json=__package__):
    """Have the controllers forget a broker, whether or not it has replicas (API key 64)."""


class UnregisterBrokerResponse(ApiMessage, load_json=__package__):
    """Whether they did."""

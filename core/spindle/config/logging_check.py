"""Checks ``spec.logging``. The CRD rejects the same, but not in an older spec, nor if the CRD was not updated."""

import re
from collections.abc import Iterator
from typing import Final

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.kafka_logging import LOGGER_PATTERN, MAX_LOGGERS
from spindle.model.spec_findings import RejectedSettings

_FIELD: Final = "spec.logging.loggers"
_SHOWN: Final = 100  # characters of a name in a message


def refused_logging(spec: KafkaClusterSpec) -> Iterator[RejectedSettings]:
    """What is wrong in ``spec.logging``: the first name that no logger has, and the number of loggers."""
    loggers = spec.logging.loggers
    wrong = next((name for name in loggers if not re.fullmatch(LOGGER_PATTERN, name)), None)
    if wrong is not None:
        yield RejectedSettings(
            _FIELD,
            "loggers",
            f"loggers: {wrong[:_SHOWN]!r} is not the name of a logger",
            "write a class or package of Kafka, for example kafka.server.ReplicaManager, or root for all others",
        )
    if len(loggers) > MAX_LOGGERS:
        yield RejectedSettings(
            _FIELD,
            "loggers",
            f"loggers: there are {len(loggers)}, and there may be {MAX_LOGGERS}",
            "name a package in place of its classes",
        )

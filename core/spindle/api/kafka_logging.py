"""Levels of the loggers of Kafka's log (``spec.logging``)."""

from typing import Annotated, Final, Literal

from pydantic import Field

from spindle.api.common import ApiModel, rule, rules

MAX_LOGGERS: Final = 50
LOGGER_PATTERN: Final = (
    "^[A-Za-z_][A-Za-z0-9_.$-]{0,199}$"  # a class, a package, or a name such as state.change.logger
)
ROOT: Final = "root"  # every logger without an entry
LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")

Level = Literal["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"]


class Logging(ApiModel):
    """Kafka's log."""

    loggers: Annotated[
        dict[str, Level],
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.all(k, k.matches('{LOGGER_PATTERN}'))",
                    "keys are names of loggers: a class or package of Kafka, for example kafka.server.ReplicaManager, or root for all others",
                    say=f"'\\'' + self.filter(k, !k.matches('{LOGGER_PATTERN}'))[0] + '\\' is not the name of a logger: write a class or package of Kafka, "
                    "for example kafka.server.ReplicaManager, or root for all others'",
                ),
                maxProperties=MAX_LOGGERS,
            )
        ),
    ] = Field(
        default_factory=dict,
        description="Levels by logger: OFF, FATAL, ERROR, WARN, INFO, DEBUG or TRACE. A logger is a class or package of Kafka, such as kafka.server or "
        "org.apache.kafka.raft; root is for all others (default: INFO). Running brokers and controllers apply a change within about two minutes, without a restart.",
    )

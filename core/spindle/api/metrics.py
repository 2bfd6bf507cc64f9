"""Metrics that a KafkaCluster exports to Prometheus."""

from typing import Annotated, Final

from pydantic import Field

from spindle.api.common import ApiModel, atomic, longest, rule, rules

MAX_TOPICS: Final = 200
MAX_GROUPS: Final = 200
TOPIC_PATTERN: Final = (
    "^[A-Za-z0-9._-]{1,249}$"  # what Kafka accepts as a topic's name, apart from "." and ".."
)
GROUP_PATTERN: Final = "^[^*]*[*]?$"


class ConsumerLag(ApiModel):
    """The lag of consumer groups."""

    enabled: bool = Field(
        False,
        description="Export kafka_consumergroup_lag: about once a minute the operator reads the committed offsets of consumer groups and the ends of the "
        "partitions, and exports at most 10,000 series.",
    )
    groups: list[
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.size() > 0 && self.matches('{GROUP_PATTERN}')",
                        "a group is a name, or the beginning of names and an asterisk: write for example billing or connect-*",
                    ),
                    **longest(249),
                )
            ),
        ]
    ] = Field(
        default_factory=list,
        description="Groups whose lag is exported: names, or beginnings of names with an asterisk (billing-*). If empty, all groups.",
        json_schema_extra=atomic(most=MAX_GROUPS),
    )


class Metrics(ApiModel):
    """Prometheus metrics."""

    enabled: bool = Field(
        True,
        description="Expose metrics of brokers and controllers to Prometheus on port 9404. If false, the port is reachable only inside "
        "their pods, and no Service or NetworkPolicy has it.",
    )
    topics: list[
        Annotated[
            str,
            Field(
                json_schema_extra=rules(
                    rule(
                        f"self.matches('{TOPIC_PATTERN}') && self != '.' && self != '..'",
                        "topics are exact names, not patterns: a topic's name has at most 249 letters, digits, dots, underscores and dashes",
                        say='"\'" + self + "\' is not the name of a topic: write exact names, not patterns, of at most 249 letters, digits, dots, '
                        'underscores and dashes"',
                    ),
                    **longest(249),
                )
            ),
        ]
    ] = Field(
        default_factory=list,
        description="Topics whose own metrics the brokers export: exact names. Running brokers apply a changed list within about two minutes, without a restart.",
        json_schema_extra=atomic(most=MAX_TOPICS),
    )
    consumer_lag: ConsumerLag = Field(
        default_factory=ConsumerLag, description="The lag of consumer groups, which the operator exports."
    )

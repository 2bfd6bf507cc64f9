"""One setting of one broker as Kafka describes it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ConfigValues:
    """One setting of one broker, by where it is set (DescribeConfigs with synonyms); None where it is not set.

    Attributes:
        own: dynamically, on the broker itself.
        shared: dynamically, as the cluster-wide default.
        static: in the file that the broker was started with.
        default: Kafka's default.
    """

    own: str | None = None
    shared: str | None = None
    static: str | None = None
    default: str | None = None

    @property
    def effective(self) -> str | None:
        """The effective value."""
        return next((v for v in (self.own, self.shared, self.static, self.default) if v is not None), None)

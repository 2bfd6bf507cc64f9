"""What Kafka answered to requests about topics, kept for the passes that follow."""

from collections.abc import Collection, Sequence
from typing import Final

from spindle.model.actions import AddPartitions, ConfigureTopic, CreateTopic, DeleteTopic
from spindle_operator.act import DONE, FAILED, PARTLY, Result

_SHOWS: Final = 15.0  # seconds within which brokers report a topic that was created


class TopicAnswers:
    """Of one cluster.

    Attributes:
        rejected: class of the action and topic → why it failed, of the last pass; of creations, of the last try. It is told in the status of the KafkaTopic.
    """

    def __init__(self) -> None:
        self.rejected: dict[tuple[str, str], str] = {}
        self._created: dict[str, float] = {}

    def created(self, now: float) -> frozenset[str]:
        """Topics that were created a moment ago: a broker whose metadata is behind may not report them yet."""
        return frozenset(name for name, at in self._created.items() if now - at < _SHOWS)

    def note(self, results: Sequence[Result], topics: Collection[str], now: float) -> None:
        """Record the results of a pass.

        Args:
            results: of its actions.
            topics: names of the topics of all KafkaTopics; what is known of others is forgotten.
            now: seconds of the monotonic clock.
        """
        rejected = {
            key: why
            for key, why in self.rejected.items()
            if key[0] == CreateTopic.__name__ and key[1] in topics
        }
        self._created = {name: at for name, at in self._created.items() if now - at < _SHOWS}
        for result in results:
            action = result.action
            if not isinstance(action, (CreateTopic, AddPartitions, ConfigureTopic, DeleteTopic)):
                continue
            rejected.pop((type(action).__name__, action.topic), None)
            if result.outcome in (FAILED, PARTLY):
                rejected[type(action).__name__, action.topic] = result.detail
            elif isinstance(action, CreateTopic) and result.outcome == DONE:
                self._created[action.topic] = now
            elif isinstance(action, DeleteTopic):
                self._created.pop(action.topic, None)
        self.rejected = rejected

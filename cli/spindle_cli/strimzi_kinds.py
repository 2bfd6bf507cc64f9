"""Kinds of Strimzi that a take-over reads and changes."""

from typing import Final

from spindle.takeover import strimzi
from spindle_cli.objects import Kind

_VERSIONS: Final = ("v1", "v1beta2")
KAFKA: Final = Kind("Kafka", "kafkas", strimzi.GROUP, _VERSIONS)
POOL: Final = Kind("KafkaNodePool", "kafkanodepools", strimzi.GROUP, _VERSIONS)
THEIR_USER: Final = Kind("KafkaUser", "kafkausers", strimzi.GROUP, _VERSIONS)
THEIR_TOPIC: Final = Kind("KafkaTopic", "kafkatopics", strimzi.GROUP, _VERSIONS)
POD_SET: Final = Kind("StrimziPodSet", "strimzipodsets", strimzi.CORE_GROUP, _VERSIONS)

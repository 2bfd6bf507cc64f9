"""KafkaTopics whose topics cannot be created hold up no others."""

from spindle.topics.topic_pass import MOST_TOPICS
from tests.unit.test_topics import cluster, condition, topic


def test_topics_that_wait_for_brokers_take_no_turns_of_others() -> None:
    world = cluster()
    for number in range(MOST_TOPICS + 5):
        world.put(topic(f"wide{number}", replicas=5))
    world.now += 60
    world.put(topic("orders"))
    for _ in range(4):
        world.reconcile()
        world.breathe()
    assert condition(world) == ("True", "SpecApplied")
    assert condition(world, f"wide{MOST_TOPICS + 4}") == ("False", "WaitingForBrokers")


def test_topics_that_kafka_rejects_take_no_turns_of_others() -> None:
    world = cluster()
    create = world.kafkas.make_topic

    def make_topic(name: str, *args: object) -> None:
        if name.startswith("bad"):
            raise RuntimeError("no such names")
        create(name, *args)  # type: ignore[arg-type]

    world.kafkas.make_topic = make_topic  # type: ignore[method-assign, assignment]
    for number in range(MOST_TOPICS + 5):
        world.put(topic(f"bad{number}"))
    world.now += 60
    world.put(topic("orders"))
    tried = set()
    for _ in range(8):
        world.reconcile()
        tried |= {name for _, name in world.rejected}
        world.breathe()
    assert condition(world) == ("True", "SpecApplied")
    assert len(tried) == MOST_TOPICS + 5, "each of them is tried"
    assert {condition(world, f"bad{n}") for n in range(MOST_TOPICS + 5)} == {("False", "TopicRejected")}

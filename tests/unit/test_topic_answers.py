"""What Kafka answered about topics, as later passes know it."""

from spindle.model.actions import ConfigureTopic, CreateTopic
from spindle_operator.act import CONFLICT, DONE, FAILED, Result
from spindle_operator.topic_answers import TopicAnswers


def create(name: str) -> CreateTopic:
    return CreateTopic(topic=name, assignments=((0,),), configs={})


def test_why_a_creation_failed_is_known_until_the_next_try() -> None:
    answers = TopicAnswers()
    change = ConfigureTopic(topic="a", values={})
    results = [
        Result(create("a"), FAILED, "no"),
        Result(change, FAILED, "not now"),
        Result(create("b"), FAILED, "no"),
    ]
    answers.note(results, {"a", "b"}, 0.0)
    assert answers.rejected == {
        ("CreateTopic", "a"): "no",
        ("ConfigureTopic", "a"): "not now",
        ("CreateTopic", "b"): "no",
    }
    answers.note([], {"a", "b"}, 1.0)
    assert answers.rejected == {("CreateTopic", "a"): "no", ("CreateTopic", "b"): "no"}
    answers.note([Result(create("a"), FAILED, "still no")], {"a", "b"}, 2.0)
    assert list(answers.rejected.items()) == [
        (("CreateTopic", "b"), "no"),
        (("CreateTopic", "a"), "still no"),
    ]
    answers.note([Result(create("a"), DONE)], {"a"}, 3.0)
    assert answers.rejected == {}, "nobody asks for b any more"


def test_a_topic_that_was_created_is_known_for_a_moment() -> None:
    answers = TopicAnswers()
    answers.note([Result(create("a"), DONE), Result(create("b"), CONFLICT, "changed")], {"a", "b"}, 10.0)
    assert answers.created(11.0) == {"a"}
    answers.note([], {"a", "b"}, 20.0)
    assert answers.created(24.0) == {"a"}
    assert answers.created(26.0) == frozenset()

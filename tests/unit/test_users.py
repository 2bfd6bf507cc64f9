"""KafkaUsers: what they get, what is taken away again, and what is nobody's business."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import AlterUser, IssueCertificate, SetPassword, TurnCa
from spindle.model.rights import Right, UserView
from spindle.model.times import stamp
from spindle.security.principal_record import on_record
from spindle.security.server_certificates import like_a_host
from spindle.users.wide import OWN, covers_own, wide
from tests.model.world import World

READ = {"resource": "topic", "name": "orders", "operations": ["Read", "Describe"]}
BY_HAND = Right("topic", "secrets", "literal", "Read", "*")


def user(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "KafkaUser",
        "metadata": {"name": name, "namespace": "kafka", "generation": 1},
        "spec": {"cluster": "demo", **spec},
    }


def running(*users: dict[str, Any]) -> World:
    world = World.of(security={"clientGraceSeconds": 120})
    world.settle()
    for each in users:
        world.put(each)
    world.settle()
    return world


def condition(world: World, name: str = "orders") -> tuple[str, str]:
    found, _ = world.get("KafkaUser", name)["status"]["conditions"]
    return found["status"], found["reason"]


def waits(world: World) -> list[tuple[str, str]]:
    return [(w["reason"], w["object"]) for w in world.cluster["status"]["waiting"]]


def rights(*operations: str) -> set[Right]:
    return {Right("topic", "orders", "literal", operation, "*") for operation in operations}


def test_one_with_a_certificate_gets_secret_rights_and_quotas() -> None:
    world = running(user(acls=[READ], quotas={"producerBytesPerSecond": 1000}))
    assert condition(world) == ("True", "SpecApplied")
    assert world.users["orders"].rights == rights("Read", "Describe")
    assert world.users["orders"].quotas == {"producer_byte_rate": 1000.0}
    assert not world.users["orders"].scram
    secret = world.get("Secret", "demo.user.orders")
    assert secret["view"]["cn"] == "orders"
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner["kind"] == "KafkaUser"
    status = world.get("KafkaUser", "orders")["status"]
    assert (status["principal"], status["secret"]) == ("User:orders", "demo.user.orders")
    assert not world.reconcile().actions


@pytest.mark.parametrize(
    "name",
    [
        "admin",
        "spindle-node",
        "spindle-operator",
        "spindle-agent.node1",
        "localhost",
        "demo-broker-0.demo-brokers",
    ],
)
def test_a_name_that_the_crd_should_have_refused_gets_no_credentials(name: str) -> None:
    """The CRD may be of another version, and with a certificate of that name its owner would be a super user, or pass for a host."""
    world = running(user(name, acls=[READ]))
    assert condition(world, name) == ("False", "NameConflict")
    told, _ = world.get("KafkaUser", name)["status"]["conditions"]
    assert "install the CRDs" in told["message"]
    assert f"demo.user.{name}" not in {each["metadata"]["name"] for each in world.all("Secret")}
    assert name not in world.users


def test_nor_does_a_reserved_name_that_is_on_record() -> None:
    named = user("spindle-node", acls=[READ])
    named["status"] = {"principal": "User:spindle-node"}
    world = running(named)
    assert condition(world, "spindle-node") == ("False", "NameConflict")
    assert "demo.user.spindle-node" not in {each["metadata"]["name"] for each in world.all("Secret")}


EVERYTHING = {"resource": "topic", "name": "*", "operations": ["Read"]}
ALTER = {"resource": "cluster", "operations": ["Alter"]}


def given_before_it_was_asked_about(*acls: dict[str, Any]) -> World:
    """A user with wide rights that nobody has allowed."""
    allowed = user(acls=list(acls))
    allowed["metadata"]["labels"] = {names.LABEL_PRIVILEGED: "true"}
    world = running(allowed)
    assert condition(world) == ("True", "SpecApplied")
    assert not waits(world)
    del world.get("KafkaUser", "orders")["metadata"]["labels"]
    world.settle()
    return world


def test_wide_rights_that_were_given_before_that_was_asked_about_go_on_and_are_told() -> None:
    world = given_before_it_was_asked_about(READ, EVERYTHING)
    assert condition(world) == ("True", "AllowedForCompatibility")
    told, _ = world.get("KafkaUser", "orders")["status"]["conditions"]
    assert "Read on topic *" in told["message"]
    assert "topic orders" not in told["message"]
    assert waits(world) == [("AllowedForCompatibility", "KafkaCluster/demo")]
    assert not world.reconcile().actions


@pytest.mark.parametrize("way", ["label", "ask for less"])
def test_each_way_out_of_wide_rights_ends_the_word(way: str) -> None:
    world = given_before_it_was_asked_about(READ, EVERYTHING)
    found = world.get("KafkaUser", "orders")
    if way == "label":
        found["metadata"]["labels"] = {names.LABEL_PRIVILEGED: "true"}
    else:
        found["spec"]["acls"] = [READ]
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert not waits(world)
    found["metadata"].pop("labels", None)
    found["spec"]["acls"] = [READ, EVERYTHING]
    world.settle()
    # What was taken away does not come back; what an administrator allowed once is as given before.
    assert condition(world)[1] == ("AllowedForCompatibility" if way == "label" else "NotPrivileged")


def test_what_is_refused_does_not_hide_what_goes_on() -> None:
    world = given_before_it_was_asked_about(EVERYTHING)
    world.get("KafkaUser", "orders")["spec"]["acls"] = [EVERYTHING, ALTER]
    world.settle()
    assert condition(world) == ("False", "NotPrivileged")
    told, _ = world.get("KafkaUser", "orders")["status"]["conditions"]
    assert "stay because they were granted before Spindle checked that: Read on topic *" in told["message"]


def on_record_before(made: dict[str, Any]) -> dict[str, Any]:
    """A user of a version that took any name."""
    return {**made, "status": {"principal": f"User:{made['metadata']['name']}"}}


def with_a_servers_certificate(world: World, name: str) -> None:
    """As earlier versions made it: good for servers, too."""
    secret = world.get("Secret", f"demo.user.{name}")
    secret["view"]["servers"] = True
    world.put(secret)


def test_a_certificate_that_is_good_for_servers_is_on_record_before_it_is_replaced() -> None:
    world = running(on_record_before(user("kafka.example.com")))
    with_a_servers_certificate(world, "kafka.example.com")
    made = world.reconcile()
    assert not [a for a in made.actions if isinstance(a, IssueCertificate)]
    assert not made.settled, "the next pass comes soon"
    noted = world.get("KafkaUser", "kafka.example.com")["status"]["serverCertificate"]
    world.settle()
    secret = world.get("Secret", "demo.user.kafka.example.com")
    assert "servers" not in secret["view"], "the new one is for clients alone"
    assert world.get("KafkaUser", "kafka.example.com")["status"]["serverCertificate"] == noted
    assert condition(world, "kafka.example.com") == ("True", "SpecApplied")
    (wait,) = world.cluster["status"]["waiting"]
    assert (wait["reason"], wait["object"]) == ("UserCertificatesValidForServers", "KafkaCluster/demo")
    assert "kafka.example.com" in wait["message"]
    assert noted["until"][:10] in wait["unblockedBy"]
    world.get("KafkaUser", "kafka.example.com")["status"]["serverCertificate"] = {
        **noted,
        "until": stamp(world.now),
    }
    world.settle()
    assert "serverCertificate" not in world.get("KafkaUser", "kafka.example.com")["status"]
    assert not waits(world)


def test_one_that_nobody_takes_for_a_host_is_replaced_without_a_word() -> None:
    world = running(user())
    with_a_servers_certificate(world, "orders")
    world.settle()
    assert "servers" not in world.get("Secret", "demo.user.orders")["view"]
    assert not waits(world)


def test_one_named_like_a_listeners_host_is_named_too() -> None:
    assert like_a_host("node-1", ["node-1"])
    assert not like_a_host("orders", ["node-1"])


def test_a_certificate_is_out_until_its_authority_is_trusted_no_more() -> None:
    world = running(on_record_before(user("kafka.example.com")))
    with_a_servers_certificate(world, "kafka.example.com")
    world.settle()
    world.cluster["spec"]["security"]["rotate"] = "1"
    for _ in range(300):
        world.reconcile()
        world.breathe()
    assert "former" not in world.get("Secret", "demo-ca")["view"]
    assert "serverCertificate" not in world.get("KafkaUser", "kafka.example.com")["status"]


def test_one_with_a_password_gets_that_and_no_certificate() -> None:
    world = running(user(authentication="scram"))
    assert condition(world) == ("True", "SpecApplied")
    assert world.users["orders"].scram
    assert world.get("Secret", "demo.user.orders")["view"]["password"]
    assert not world.reconcile().actions


def test_a_password_that_a_person_changed_in_the_secret_is_given_to_kafka() -> None:
    world = running(user(authentication="scram"))
    secret = world.get("Secret", "demo.user.orders")
    secret["view"] |= {"password": "another"}
    world.put(secret)
    made = world.reconcile()
    assert [type(a) for a in made.actions] == [SetPassword]
    world.settle()
    assert condition(world) == ("True", "SpecApplied")


def test_a_name_that_has_a_password_from_somebody_else_is_left_alone() -> None:
    world = World.of()
    world.settle()
    world.users["orders"] = UserView(scram=True)
    world.put(user(authentication="scram", acls=[READ]))
    world.settle()
    assert condition(world) == ("False", "NameConflict")
    assert world.users["orders"] == UserView(scram=True)


def test_what_is_no_longer_asked_for_is_taken_away_and_what_a_person_gave_stays() -> None:
    world = running(user(acls=[READ], quotas={"producerBytesPerSecond": 1000}))
    has = world.users["orders"]
    world.users["orders"] = UserView(
        has.rights | {BY_HAND}, has.scram, {**has.quotas, "consumer_byte_rate": 5.0}
    )
    world.get("KafkaUser", "orders")["spec"] = {"cluster": "demo", "acls": [{**READ, "operations": ["Read"]}]}
    world.settle()
    assert world.users["orders"].rights == rights("Read") | {BY_HAND}
    assert world.users["orders"].quotas == {"consumer_byte_rate": 5.0}


def test_a_right_that_a_person_gave_before_stays_also_when_it_was_asked_for_meanwhile() -> None:
    world = World.of()
    world.settle()
    world.users["orders"] = UserView(frozenset(rights("Read")))
    world.put(user(acls=[READ]))
    world.settle()
    delete(world)
    world.settle()
    assert world.users["orders"].rights == rights("Read")
    assert ("KafkaUser", "orders") not in world.objects


@pytest.mark.parametrize("gone", [True, False])
def test_a_quota_that_a_person_set_before_comes_back(*, gone: bool) -> None:
    world = World.of()
    world.settle()
    world.users["orders"] = UserView(quotas={"producer_byte_rate": 77.0})
    world.put(user(quotas={"producerBytesPerSecond": 1000, "requestPercentage": 50}))
    world.settle()
    assert world.users["orders"].quotas == {"producer_byte_rate": 1000.0, "request_percentage": 50.0}
    assert condition(world) == ("True", "SpecApplied")
    if gone:
        delete(world)
    else:
        world.get("KafkaUser", "orders")["spec"] = {"cluster": "demo"}
    world.settle()
    assert world.users["orders"].quotas == {"producer_byte_rate": 77.0}


def test_a_quota_that_a_person_changed_meanwhile_is_set_anew_and_then_theirs() -> None:
    world = running(user(quotas={"producerBytesPerSecond": 1000}))
    world.users["orders"] = UserView(quotas={"producer_byte_rate": 77.0})
    world.settle()
    assert world.users["orders"].quotas == {"producer_byte_rate": 1000.0}
    world.get("KafkaUser", "orders")["spec"] = {"cluster": "demo"}
    world.settle()
    assert world.users["orders"].quotas == {"producer_byte_rate": 77.0}


def delete(world: World, name: str = "orders") -> None:
    world.get("KafkaUser", name)["metadata"]["deletionTimestamp"] = "now"


def test_a_deleted_user_leaves_nothing_of_ours_and_all_of_others() -> None:
    world = running(user(authentication="scram", acls=[READ], quotas={"requestPercentage": 50}))
    has = world.users["orders"]
    world.users["orders"] = UserView(has.rights | {BY_HAND}, has.scram, has.quotas)
    delete(world)
    world.settle()
    assert ("KafkaUser", "orders") not in world.objects
    assert world.users["orders"] == UserView(frozenset({BY_HAND}))


def test_while_kafka_is_silent_nothing_is_given_taken_or_let_go() -> None:
    world = running(user(acls=[READ]))
    world.kafka_up = False
    world.get("KafkaUser", "orders")["spec"]["acls"] = []
    made = world.reconcile()
    assert not [a for a in made.actions if isinstance(a, AlterUser)]
    assert condition(world) == ("False", "KafkaUnknown")
    delete(world)
    world.reconcile()
    assert names.FINALIZER_USER in world.get("KafkaUser", "orders")["metadata"]["finalizers"]
    assert world.get("KafkaUser", "orders")["status"]["acls"], "what is ours is still on record"


def test_users_that_cannot_be_read_are_not_taken_for_gone() -> None:
    world = running(user(acls=[READ]))
    world.unknown = frozenset({"kafkausers"})
    assert not world.reconcile().actions
    assert waits(world) == [("UsersUnknown", "KafkaCluster/demo")]


def test_an_authority_is_not_replaced_without_users_who_cannot_be_read() -> None:
    world = running(user())
    world.cluster["spec"]["security"]["rotate"] = "1"
    world.unknown = frozenset({"kafkausers"})
    for _ in range(20):
        assert not [a for a in world.reconcile().actions if isinstance(a, TurnCa)]
        world.breathe()
    world.unknown = frozenset()
    assert [a.step for a in world.reconcile().actions if isinstance(a, TurnCa)] == ["announce"]


def test_a_cluster_that_is_deleted_waits_for_users_who_cannot_be_read() -> None:
    world = running(user(acls=[READ]))
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    world.unknown = frozenset({"kafkausers"})
    for _ in range(20):
        assert not world.reconcile().finished
        world.breathe()
    assert waits(world) == [("UsersUnknown", "KafkaCluster/demo")]
    world.unknown = frozenset()
    world.reconcile()
    assert world.get("KafkaUser", "orders")["metadata"]["finalizers"] == []
    assert world.reconcile().finished


def test_a_cluster_that_is_deleted_lets_its_users_go() -> None:
    world = running(user(acls=[READ]))
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(10):
        if world.reconcile().finished:
            break
        world.breathe()
    assert world.get("KafkaUser", "orders")["metadata"]["finalizers"] == []


def test_a_cluster_that_was_deleted_comes_back_under_its_users() -> None:
    world = running(user(acls=[READ]), user("other", authentication="scram"))
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for _ in range(30):
        if world.reconcile().finished:
            break
        world.breathe()
    for (kind, name), left in list(world.objects.items()):
        owners = [owner["uid"] for owner in left["metadata"].get("ownerReferences", ())]
        if world.cluster["metadata"]["uid"] in owners:
            del world.objects[kind, name]
    assert {s["metadata"]["name"] for s in world.all("Secret")} == {"demo.user.orders", "demo.user.other"}
    world.granted = False
    del world.cluster["metadata"]["deletionTimestamp"]
    world.cluster["metadata"]["uid"] = "uid-demo-again"
    world.cluster["status"] = {}
    world.settle()
    assert world.running("broker") == [0, 1, 2]
    assert [condition(world, name) for name in ("orders", "other")] == [("True", "SpecApplied")] * 2


def test_an_authority_is_replaced_under_users_too() -> None:
    world = running(user(), user("other", authentication="scram"))
    world.cluster["spec"]["security"]["rotate"] = "1"
    for _ in range(300):
        world.reconcile()
        world.breathe()
    authority = world.get("Secret", "demo-ca")["view"]
    assert authority["fingerprint"] != "ca"
    assert "former" not in authority
    for name in ("orders", "other"):
        assert world.get("Secret", f"demo.user.{name}")["view"]["trust"] == [authority["fingerprint"]]
    assert world.get("Secret", "demo.user.orders")["view"]["issuer"] == authority["fingerprint"]
    assert condition(world, "other") == ("True", "SpecApplied")


@pytest.mark.parametrize("stop_after", range(6))
def test_wherever_it_is_interrupted_all_that_was_given_is_on_record(stop_after: int) -> None:
    world = World.of()
    world.settle()
    world.put(user(authentication="scram", acls=[READ], quotas={"requestPercentage": 50}))
    for number in range(12):
        world.reconcile(stop_after if number % 2 else None)
        on_record = world.get("KafkaUser", "orders").get("status", {})
        given = world.users.get("orders", UserView())
        assert len(given.rights) <= len(on_record.get("acls", ()))
        assert set(given.quotas) <= {each["name"] for each in on_record.get("quotas", ())}
        assert given.scram <= on_record.get("password", False)
    delete(world)
    world.settle()
    assert world.users["orders"] == UserView()


def test_a_new_one_does_not_become_somebody_who_has_more_rights_than_it_asks_for() -> None:
    world = World.of()
    world.settle()
    world.users["orders"] = UserView(frozenset({BY_HAND}))
    world.put(user(acls=[READ]))
    world.settle()
    assert condition(world) == ("False", "NameConflict")
    assert ("Secret", "demo.user.orders") not in world.objects, "a certificate alone would be enough"
    assert world.users["orders"] == UserView(frozenset({BY_HAND}))
    world.users["orders"] = UserView()
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert world.get("Secret", "demo.user.orders")["view"]["cn"] == "orders"


def test_one_that_was_there_before_stays_who_it_is() -> None:
    world = running(user(acls=[READ]))
    world.users["orders"] = UserView(world.users["orders"].rights | {BY_HAND})
    world.settle()
    assert condition(world) == ("True", "SpecApplied")
    assert world.users["orders"].rights == rights("Read", "Describe") | {BY_HAND}


def test_a_deleted_ones_certificate_is_denied_everything_until_it_ends() -> None:
    world = running(user(acls=[READ]))
    ends = world.get("KafkaUser", "orders")["status"]["certificateUntil"]
    delete(world)
    world.settle()
    assert ("KafkaUser", "orders") not in world.objects
    assert world.cluster["status"]["formerUsers"] == [{"name": "orders", "until": ends}]
    assert world.users["orders"].denied
    world.put(user(acls=[READ]))
    world.settle()
    assert world.get("KafkaUser", "orders")["status"]["principal"] == "User:orders_2"
    assert world.get("Secret", "demo.user.orders")["view"]["cn"] == "orders_2"
    assert world.users["orders_2"] == UserView(frozenset(rights("Read", "Describe")))
    assert world.users["orders"] == UserView(denied=True)
    assert condition(world) == ("True", "SpecApplied")
    world.cluster["status"]["formerUsers"] = [{"name": "orders", "until": stamp(world.now)}]
    world.settle()
    assert world.users["orders"] == UserView(), "what is past needs no denial"
    assert not world.cluster["status"].get("formerUsers")
    assert world.get("KafkaUser", "orders")["status"]["principal"] == "User:orders_2"


def test_a_deleted_one_with_a_password_is_not_denied_anything() -> None:
    world = running(user(authentication="scram", acls=[READ]))
    delete(world)
    world.settle()
    assert world.users["orders"] == UserView()
    assert not world.cluster["status"].get("formerUsers")


@pytest.mark.parametrize("stop_after", range(3))
def test_what_is_denied_is_on_record_wherever_it_is_interrupted(stop_after: int) -> None:
    world = running(user(acls=[READ]))
    delete(world)
    for number in range(12):
        world.reconcile(stop_after if number % 2 else None)
        former = [each["name"] for each in world.cluster["status"].get("formerUsers", ())]
        assert not world.users["orders"].denied or former == ["orders"]
        assert world.users["orders"].denied or ("KafkaUser", "orders") in world.objects
    assert ("KafkaUser", "orders") not in world.objects


@pytest.mark.parametrize(
    "told", ["User:admin", "User:orders_", "User:orders_2_3", "User:other_2", "User:spindle-node"]
)
def test_a_status_that_somebody_else_wrote_makes_nobody_of_it(told: str) -> None:
    assert on_record({**user(), "status": {"principal": told}}) is None


@pytest.mark.parametrize(
    ("right", "far"),
    [
        (("cluster", "kafka-cluster", "literal", "Create"), True),  # of any topic, whatever is denied
        (("cluster", "kafka-cluster", "literal", "ClusterAction"), True),
        (("cluster", "kafka-cluster", "literal", "Delete"), True),  # of any topic, likewise
        (("cluster", "kafka-cluster", "literal", "Describe"), False),
        (("topic", "*", "literal", "Read"), True),
        (("topic", "*", "prefixed", "Read"), False),  # Kafka takes the star for a letter there
        (("topic", "__spindle_samples", "literal", "Write"), True),
        (("topic", "orders", "prefixed", "Create"), False),
        (("topic", "__consumer_offsets", "literal", "Delete"), True),
        (("topic", "_", "prefixed", "Write"), True),
        (("topic", "_", "prefixed", "Read"), False),
        (("topic", "__", "prefixed", "Write"), True),
        (("topic", "__s", "prefixed", "Delete"), True),
        (("topic", "o", "prefixed", "All"), False),
        (("topic", "_schemas", "literal", "Write"), False),
    ],
)
def test_rights_that_reach_far(right: tuple[str, str, str, str], far: bool) -> None:
    assert wide(Right(*right, "*")) is far


@pytest.mark.parametrize(
    ("name", "pattern", "operation", "denied"),
    [
        *((OWN[:length], "prefixed", "Write", True) for length in range(1, len(OWN))),
        ("*", "literal", "Create", True),
        ("_", "prefixed", "All", True),
        ("_", "prefixed", "Read", False),
        ("_", "literal", "Write", False),
        ("o", "prefixed", "All", False),
        ("__c", "prefixed", "All", False),
        (OWN, "prefixed", "Write", False),  # named, so it is meant
        ("__spindle_samples", "literal", "Write", False),
    ],
)
def test_patterns_that_cover_spindles_topics_among_others_are_denied_these(
    name: str, pattern: str, operation: str, denied: bool
) -> None:
    assert covers_own([Right("topic", name, pattern, operation, "*")]) is denied

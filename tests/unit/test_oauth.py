"""Listeners that accept tokens of an issuer, and KafkaUsers whose principals they name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.api.cluster import KafkaClusterSpec
from spindle.config.listeners_check import refused_listeners
from spindle.config.preview import ROLL, PreviewChange, preview
from spindle.config.server_properties import parsed
from spindle.listeners.broker_listener import BrokerListener, Tokens, allowed_urls, listener_settings
from spindle.model.rights import Right, UserView
from spindle.security.principal_record import is_reserved, on_record
from spindle.users.principals import principal_of
from spindle_operator import ca
from tests.model.world import World, quickstart

OAUTH = {
    "issuer": "https://login.example.com/realms/kafka",
    "jwks": "https://login.example.com:8443/certs?v=1",
    "audience": "kafka",
}
TOKENS = {"name": "tokens", "port": 9095, "auth": "oauth", "oauth": OAUTH}
ORDERS = Right("topic", "orders", "literal", "Write", "*")


def spec(**oauth: Any) -> KafkaClusterSpec:
    return KafkaClusterSpec.model_validate(
        quickstart(listeners=[{**TOKENS, "oauth": {**OAUTH, **oauth}}])["spec"]
    )


def user(name: str = "orders", **more: Any) -> dict[str, Any]:
    fields = {
        "cluster": "demo",
        "authentication": "oauth",
        "acls": [{"resource": "topic", "name": "orders", "operations": ["Write"]}],
        **more,
    }
    return {
        "kind": "KafkaUser",
        "metadata": {"name": name, "namespace": "kafka", "finalizers": []},
        "spec": fields,
    }


def running(*users: dict[str, Any], listeners: Any = (TOKENS,)) -> World:
    world = World.of(listeners=list(listeners))
    for each in users:
        world.put(each)
    world.settle()
    return world


def status(world: World, name: str = "orders") -> dict[str, Any]:
    return dict(world.get("KafkaUser", name)["status"])


def properties(world: World) -> dict[str, str]:
    return parsed(world.get("ConfigMap", "demo-broker-0-config")["data"]["server.properties"])


def test_a_broker_has_kafkas_own_validator_and_may_read_the_keys_url() -> None:
    world = running()
    found = properties(world)
    prefix = "listener.name.tokens"
    assert found["listener.security.protocol.map"].endswith("TOKENS:SASL_SSL")
    assert found[f"{prefix}.sasl.enabled.mechanisms"] == "OAUTHBEARER"
    assert found[f"{prefix}.ssl.client.auth"] == "none"
    assert found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"].endswith(
        ".OAuthBearerValidatorCallbackHandler"
    )
    assert found[f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer"] == OAUTH["issuer"]
    assert found[f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience"] == "kafka"
    assert found[f"{prefix}.oauthbearer.sasl.oauthbearer.sub.claim.name"] == "sub"
    assert found[f"{prefix}.oauthbearer.connections.max.reauth.ms"] == "3600000"
    (kafka,) = world.get("Pod", "demo-broker-0")["spec"]["containers"]
    options = {each["name"]: each.get("value", "") for each in kafka["env"]}["KAFKA_OPTS"]
    assert options == f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={OAUTH['jwks']}"


def test_without_such_a_listener_nothing_changes() -> None:
    world = running(listeners=[{"name": "inside", "port": 9095, "auth": "scram"}])
    assert not [key for key in properties(world) if "oauth" in key]
    (kafka,) = world.get("Pod", "demo-broker-0")["spec"]["containers"]
    assert {"name": "KAFKA_OPTS", "value": ""} in kafka["env"]
    assert allowed_urls([]) == ""


def test_an_authority_of_the_issuers_own_is_in_one_line() -> None:
    bundle = ca.make_ca("issuer").cert.decode()
    text = "listener.name.tokens.oauthbearer.sasl.jaas.config"
    world = running(listeners=[{**TOKENS, "oauth": {**OAUTH, "caBundle": bundle}}])
    jaas = properties(world)[text]
    assert "\n" not in jaas
    assert 'ssl.truststore.type="PEM"' in jaas
    assert bundle.strip().replace("\n", "\\n") in jaas


BUNDLE = ca.make_ca("issuer").cert.decode()


def test_a_bundle_with_the_line_ends_of_windows_is_the_same_line() -> None:
    """Kafka's parser ends a quoted value at each of the two characters."""

    def rendered(bundle: str) -> str:
        tokens = Tokens(OAUTH["issuer"], OAUTH["jwks"], "kafka", trusted=bundle)
        listener = BrokerListener("tokens", 9095, "oauth", "host", 9095, tokens=tokens)
        return listener_settings([listener], "")["listener.name.tokens.oauthbearer.sasl.jaas.config"]

    assert rendered(BUNDLE.replace("\n", "\r\n")) == rendered(BUNDLE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("issuer", "http://login.example.com"),
        ("issuer", "login.example.com"),
        ("jwks", "http://login.example.com/certs"),
        ("jwks", "file:///etc/spindle/tls/keystore.pem"),
        ("jwks", "https://login.example.com/certs,https://elsewhere"),
        ("jwks", "https://login.example.com/certs -Dx=y"),
        ("jwks", "https://user:word@login.example.com/certs"),
        ("jwks", "https://login.example.com:99999/certs"),
        ("jwks", "https://login.example.com/certs#x"),
        ("audience", "a,b"),
        ("audience", ""),
        ("audience", 'a"b'),
        ("principalClaim", "email"),
        ("principalClaim", "preferred_username"),
        ("principalClaim", "gender"),
        ("principalClaim", "username"),
        ("principalClaim", "nonce"),
        ("principalClaim", "scope"),
        ("principalClaim", "a b"),
        ("caBundle", "nonsense"),
        ("caBundle", BUNDLE + "and more"),
        ("caBundle", BUNDLE.replace("CERTIFICATE", "PRIVATE KEY")),
        ("caBundle", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("caBundle", BUNDLE.replace("\n-----END", "AAAA\n-----END")),
    ],
)
def test_nonsense_is_refused_with_a_way_out(field: str, value: str) -> None:
    (found,) = refused_listeners(spec(**{field: value}))
    assert found.field == f"spec.listeners[tokens].oauth.{field}"
    assert found.way_out.startswith("write ")


def test_what_is_right_is_taken() -> None:
    assert refused_listeners(spec()) == ()
    assert refused_listeners(spec(caBundle=BUNDLE + BUNDLE, principalClaim="https://x.org/client")) == ()
    assert refused_listeners(spec(audience="api://5f7c-8e|x")) == ()


@pytest.mark.parametrize(
    ("listener", "field"),
    [
        ({**TOKENS, "tls": False}, "tls"),
        ({**TOKENS, "auth": "scram"}, "oauth"),
        ({"name": "tokens", "port": 9095, "auth": "oauth"}, "oauth"),
    ],
)
def test_what_does_not_go_together_is_refused(listener: dict[str, Any], field: str) -> None:
    (found,) = refused_listeners(KafkaClusterSpec.model_validate(quickstart(listeners=[listener])["spec"]))
    assert found.field == f"spec.listeners[tokens].{field}"


def test_a_listener_that_is_refused_reaches_no_broker() -> None:
    world = running(listeners=[])
    world.cluster["spec"]["listeners"] = [{**TOKENS, "oauth": {**OAUTH, "jwks": "file:///etc/passwd"}}]
    world.settle()
    assert not [key for key in properties(world) if "oauth" in key]
    assert "InvalidConfig" in {w["reason"] for w in world.cluster["status"]["waiting"]}


def test_the_preview_says_that_brokers_restart() -> None:
    changed = spec(audience="other")
    assert preview(spec(), changed) == [PreviewChange("listeners[tokens].oauth", "all brokers", ROLL)]


# -- KafkaUsers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", [None, "auth0|5f7c8ec7c33c6c004bbafe82"])
def test_a_user_with_tokens_has_acls_and_no_secret(principal: str | None) -> None:
    world = running(user(**({"principal": principal} if principal else {})))
    who = principal or "orders"
    assert world.users[who].rights == {ORDERS}
    assert status(world)["principal"] == f"User:{who}"
    assert status(world)["conditions"][0]["status"] == "True"
    assert "secret" not in status(world)
    assert ("Secret", "demo.user.orders") not in world.objects
    assert not world.reconcile().actions


def test_what_it_had_is_removed_with_it_and_nothing_is_denied() -> None:
    world = running(user(principal="abc"))
    world.get("KafkaUser", "orders")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.settle()
    assert world.users["abc"] == UserView()
    assert not world.cluster["status"].get("formerUsers")
    assert ("KafkaUser", "orders") not in world.objects


@pytest.mark.parametrize("principal", ["spindle-node", "spindle-operator", "admin", "ANONYMOUS", "*"])
def test_a_principal_of_spindles_is_refused(principal: str) -> None:
    world = running(user(principal=principal))
    assert status(world)["conditions"][0]["reason"] == "NameConflict"
    assert not world.users.get(principal, UserView()).rights
    assert is_reserved(principal)


@pytest.mark.parametrize("first", ["mtls", "scram"])
def test_the_principal_of_another_user_is_refused(first: str) -> None:
    world = running(user("orders", authentication=first))
    world.put(user("taken", principal="orders", acls=[]))
    world.settle()
    assert "is the principal of KafkaUser orders" in status(world, "taken")["conditions"][0]["message"]
    assert status(world)["conditions"][0]["status"] == "True"


def test_of_two_new_users_with_one_principal_one_is_refused() -> None:
    world = running(user("a", principal="x"), user("b", principal="x"))
    assert status(world, "a")["conditions"][0]["status"] == "True"
    assert "is the principal of KafkaUser a" in status(world, "b")["conditions"][0]["message"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_record_gives_a_user_another_principal_than_its_own(principal: str, told: str) -> None:
    made = user(principal=principal)
    made["status"] = {"principal": f"User:{told}"}
    assert on_record(made) in (None, principal or "orders")
    assert principal_of(made, {}) == (principal or "orders")
    if is_reserved(principal):
        assert on_record(made) is None

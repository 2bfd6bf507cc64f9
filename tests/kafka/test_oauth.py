"""Tokens of an issuer (OAUTHBEARER) at a real broker, from oidc-provider: who is let in as whom, and who is not."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import TopicAuthorizationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from spindle.api import names
from spindle.listeners.broker_listener import BrokerListener, Tokens
from spindle_operator import users
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.issuer import ADDRESS, Issuer, claims_of, forged, has_node, unsigned
from tests.kafka.test_listeners import WRITE, encrypted, give, shut_out, write

pytestmark = pytest.mark.skipif(not has_node(), reason="there is no Node.js")

TOKENS, OTHER_CLAIM = 9095, 9096


class Held(AbstractTokenProvider):
    """A client that has this token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    made = Issuer(tmp_path_factory.mktemp("issuer"), port)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster], issuer: Issuer) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    broker = made.brokers[0]

    def door(name: str, port: int, claim: str, bundle: str) -> BrokerListener:
        tokens = Tokens(issuer.url, issuer.jwks, "kafka", claim, bundle)
        return BrokerListener(name, port, "oauth", broker.address, port, tokens=tokens)

    of_windows = issuer.bundle.replace("\n", "\r\n")
    broker.doors = (
        door("tokens", TOKENS, "sub", issuer.bundle),
        door("other", OTHER_CLAIM, "client_id", of_windows),
    )
    made.up()
    made.make_topic("orders", [[0]])
    return made


@pytest.fixture(scope="module")
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    pems = [(cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]
    hosts = {0: cluster.brokers[0].address}
    made = KafkaClient("test/demo", hosts, names.PORT_REPLICATION, Access(hosts, *pems).context(), 10)
    yield made
    made.close()


def client(cluster: Cluster, token: str, port: int = TOKENS) -> dict[str, Any]:
    return encrypted(
        cluster,
        port,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Held(token),
    )


def test_a_token_lets_in_as_its_principal_which_has_the_rights_of_its_acls(
    cluster: Cluster, link: KafkaClient, issuer: Issuer
) -> None:
    token = issuer.token("orders")
    assert claims_of(token)["sub"] == "orders"
    with pytest.raises(TopicAuthorizationFailedError):
        write(client(cluster, token))
    give(link, "orders", *WRITE)
    write(client(cluster, token))
    write(client(cluster, token, OTHER_CLAIM))
    with pytest.raises(TopicAuthorizationFailedError):
        write(client(cluster, issuer.token("spindle-test")))
    users.alter(link, "orders", (), WRITE)


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda issuer: issuer.token("orders", "another"),
        lambda issuer: forged(issuer.token("orders")),
        lambda issuer: forged(issuer.token("orders"), sub=names.PRINCIPAL_OPERATOR),
        lambda issuer: unsigned(issuer.token("orders")),
        lambda issuer: issuer.token("orders")[:-8] + "AAAAAAAA",
        lambda issuer: "nonsense",
    ],
    ids=["of-another-audience", "forged", "forged-name", "unsigned", "changed", "none"],
)
def test_no_other_token_lets_anybody_in(
    cluster: Cluster, issuer: Issuer, spoiled: Callable[[Issuer], str]
) -> None:
    shut_out(client(cluster, spoiled(issuer)))


def test_a_client_without_a_token_is_not_let_in(cluster: Cluster) -> None:
    shut_out(encrypted(cluster, TOKENS))


def test_a_broker_does_not_start_without_the_issuers_keys_and_says_so(
    cluster: Cluster, issuer: Issuer
) -> None:
    """Kafka reads them before it opens its listeners."""
    token = issuer.token("orders")
    issuer.stop()
    cluster.forget_admin()
    broker = cluster.brokers[0]
    broker.stop()
    broker.start()
    assert broker.kafka is not None
    assert broker.kafka.wait(60) != 0
    assert b"DefaultJwtValidator" in broker.log.read_bytes()[-40000:]
    broker.stop()
    issuer.start()  # with other keys
    broker.start()
    broker.wait_ready()
    with pytest.raises(TopicAuthorizationFailedError):
        write(client(cluster, issuer.token("orders")))
    shut_out(client(cluster, forged(token)))

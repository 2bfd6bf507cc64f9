"""What is removed before something goes into a support bundle."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from spindle_cli.support.redact import REMOVED, Scrubber, bare

PASSWORD = "kQ7-vBx.29Zr_mLw+84Tt"  # noqa: S105 - nobody has it
SHORT = "hunter2"


def coded(value: str | bytes) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


def secret(**data: str | bytes) -> dict[str, Any]:
    return {"kind": "Secret", "data": {key.replace("_", "."): coded(value) for key, value in data.items()}}


@pytest.fixture(scope="module")
def key() -> str:
    made = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.private_bytes(*form).decode()


@pytest.fixture(scope="module")
def scrubber(key: str) -> Scrubber:
    return Scrubber([secret(password=PASSWORD, pin=SHORT, tls_key=key, username="alice", ca_crt="public")])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"login of alice with {PASSWORD} failed", id="plain"),
        pytest.param(f"…{PASSWORD[2:]}", id="its-end"),
        pytest.param(f"{PASSWORD[:15]}\n", id="its-begin"),
        pytest.param(f'{{"pw":"{PASSWORD}"}}', id="in-json"),
        pytest.param(f"x{PASSWORD}y", id="in-a-word"),
        pytest.param(coded(PASSWORD), id="base64"),
        pytest.param(coded(f"alice:{PASSWORD}"), id="base64-after-six"),
        pytest.param(coded(f"alice1:{PASSWORD}\n"), id="base64-after-seven"),
        pytest.param(coded(f"alice12:{PASSWORD}"), id="base64-after-eight"),
    ],
)
def test_a_password_is_found_in_every_form(scrubber: Scrubber, text: str) -> None:
    found = scrubber.text(text)

    assert REMOVED in found
    for form in (PASSWORD, coded(PASSWORD)):
        assert not any(form[at : at + 12] in found for at in range(len(form) - 11))


def test_a_password_of_several_words_is_found_whole_and_in_part() -> None:
    phrase = "correct horse battery staple"
    scrubber = Scrubber([secret(password=phrase)])

    for text in (
        f"with {phrase}, it failed",
        f"with {phrase[3:20]} it failed",
        f"{phrase}\n{phrase}",
        f"a {phrase} b {phrase}",
    ):
        found = scrubber.text(text)
        assert not any(phrase[at : at + 12] in found for at in range(len(phrase) - 11))
        assert found.count(REMOVED) == text.count("horse")
    assert scrubber.text("before, correct, after") == "before, correct, after"
    assert scrubber.text(f"before {phrase} after") == f"before {REMOVED} after"


def test_a_short_password_is_found(scrubber: Scrubber) -> None:
    assert SHORT not in scrubber.text(f"pw:{SHORT}, ({SHORT})")


def test_a_key_is_found_whole_and_line_by_line(scrubber: Scrubber, key: str) -> None:
    lines = [line for line in key.splitlines() if not line.startswith("-----")]

    for text in (
        key,
        key.replace("\n", "\\n"),
        f"before\n{key}\nafter",
        coded(key),
        *lines,
        *(f"line {x}" for x in lines),
    ):
        found = scrubber.text(text)
        assert not any(line in found for line in lines)
    assert "after" in scrubber.text(f"before\n{key}\nafter")


def test_a_key_of_which_nothing_is_known_is_removed_too(key: str) -> None:
    found = Scrubber().text(key + "".join(key.splitlines()[1:3]))

    assert not any(line in found for line in key.splitlines()[1:-1] if len(line) > 40)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ssl.key.password=abc", f"ssl.key.password={REMOVED}"),
        ("--token abc --x", f"--token {REMOVED} --x"),
        ('"client_secret": "a b", "x": 1', f'"client_secret": {REMOVED}, "x": 1'),
        ("Authorization: Bearer abcdefghijkl", f"Authorization: Bearer {REMOVED}"),
        ("https://bob:abc@example.org/x", f"https://bob:{REMOVED}@example.org/x"),
        ('sasl.jaas.config="x required password=\\"y\\";"', f"sasl.jaas.config={REMOVED}"),
    ],
)
def test_what_is_assigned_to_a_password_is_removed(text: str, expected: str) -> None:
    assert Scrubber().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z info     [3f9c1d0a] demo/kafka: moved orders-17 from 1:/var/lib/kafka/disks/disk0/log",
        "__consumer_offsets-49 alice public demo-broker-1.demo-brokers.kafka.svc:9091",
        f"docker.io/apache/kafka@sha256:{'0123456789abcdef' * 4}",
        "Jm5Xk0aMTq2sVYbE7pWc1A",  # a directory id
        "org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended only for the leader",
        "/var/lib/kubelet/pods/7f3ac1de-93aa-4b77-9d02-0a8f7c5e2b11/volumes/kubernetes.io~local-volume/node1-disk0/mount",
    ],
)
def test_what_support_needs_stays(scrubber: Scrubber, text: str) -> None:
    assert scrubber.text(text) == text


def test_fields_with_such_a_name_lose_their_value_and_references_stay(scrubber: Scrubber) -> None:
    config = {"ssl.keystore.password": "abc", "log.retention.hours": "5", "secretName": "demo-ca", "n": 1}

    assert scrubber.value({"spec": {"config": config, "list": [PASSWORD]}}) == {
        "spec": {"config": {**config, "ssl.keystore.password": REMOVED}, "list": [REMOVED]}
    }


def test_a_secret_keeps_name_type_and_keys_only() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData":{{"a":"{PASSWORD}"}}}}'
    }
    raw = {
        **secret(password=PASSWORD),
        "type": "Opaque",
        "metadata": {"name": "x", "annotations": annotations},
    }

    assert bare(raw) == {"kind": "Secret", "metadata": {"name": "x"}, "type": "Opaque", "keys": ["password"]}


def test_values_of_environment_variables_and_what_kubectl_applied_are_removed() -> None:
    reference = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}
    raw = {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "managedFields": [],
            "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "x"}, reference]}]},
    }

    assert bare(raw) == {
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": REMOVED}, reference]}]},
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"password: |\n  {SHORT}\n  {SHORT}", id="yaml-block"),
        pytest.param(f"password=ab,{SHORT};ef {SHORT}", id="rest-of-the-line"),
        pytest.param(f"ssl.keystore.password = two {SHORT}", id="two-words"),
        pytest.param(f"x.password=a\\\n  {SHORT}", id="continued-line"),
        pytest.param(f'say {{"a":"{{\\"password\\":\\"ab,{SHORT}\\"}}"}}', id="json-in-json"),
        pytest.param(f"say <password>{SHORT}</password>", id="xml"),
        pytest.param(f"say pwd={SHORT}", id="pwd"),
        pytest.param(f"say db_pass: {SHORT}", id="db-pass"),
        pytest.param(f"say AccountKey={SHORT}", id="account-key"),
        pytest.param(f"Set-Cookie: a=b; c={SHORT}", id="cookie"),
        pytest.param(f"say ApiKey {SHORT}0123", id="api-key"),
        pytest.param(f"say eyJhbGciOiJI.eyJzdWIi.{SHORT}", id="short-jwt"),
        pytest.param(f"say https://bob:a/{SHORT}@b@host/x", id="url-with-slash-and-at"),
        pytest.param(f"say https://ghp_0123456{SHORT}@host/x", id="url-with-a-token"),
        pytest.param(f"MIIEabc\n{SHORT}\n-----END PRIVATE KEY-----\nafter", id="end-of-a-key"),
    ],
)
def test_a_secret_that_nobody_told_of_is_removed_by_its_place(text: str) -> None:
    found = Scrubber().text(text)

    assert SHORT not in found
    assert REMOVED in found


@pytest.mark.parametrize(
    "text",
    [
        "pulled registry:5000/kafka@sha256:0123",
        "https://host:8443/a@b",
        "secret demo-admin not found",
        "pass 12",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert Scrubber().text(text) == text


@pytest.mark.parametrize(
    "word", ["a", "-", "a.", "password", "x://", "x://a:", "-----BEGIN A", "eyJ", "--password", " ", "\\"]
)
def test_a_long_line_takes_no_longer_than_its_length(word: str) -> None:
    # With the square of the length these characters would take minutes.
    text = word * (100_000 // len(word))

    assert len(Scrubber().text(text)) <= len(text) * len(REMOVED)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(["--password", SHORT], id="argument"),
        pytest.param({"password": 12345}, id="number"),
        pytest.param({"passwords": [SHORT]}, id="list"),
        pytest.param({"options": [{"name": "DB_PASSWORD", "value": SHORT}]}, id="named-value"),
    ],
)
def test_values_that_their_neighbours_call_secret_are_removed(value: Any) -> None:
    found = str(Scrubber().value(value))

    assert SHORT not in found
    assert "12345" not in found
    assert REMOVED in found


def test_a_config_map_loses_secret_keys_and_binary_data() -> None:
    found = bare(
        {"kind": "ConfigMap", "data": {"token": SHORT, "a": "kept"}, "binaryData": {"x": coded(SHORT)}}
    )

    assert (found["data"], found["binaryData"]) == ({"token": REMOVED, "a": "kept"}, {"x": REMOVED})


def test_the_annotation_of_kubectl_apply_is_removed_in_a_pod_template_too() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": SHORT, "a": "kept"}
    found = bare({"kind": "Deployment", "spec": {"template": {"metadata": {"annotations": annotations}}}})

    assert found["spec"]["template"]["metadata"]["annotations"] == {"a": "kept"}


def test_an_authoritys_key_is_secret_and_a_namespace_is_not() -> None:
    scrubber = Scrubber([secret(ca_key="authority-0123456", namespace="kafka")])

    assert scrubber.text("authority-0123456 in kafka") == f"{REMOVED} in kafka"


@pytest.mark.parametrize("text", ['{"m": "a\\"b\\\\c1"}', "q=a%22b%5Cc1"])
def test_a_short_value_is_found_in_json_and_in_an_address(text: str) -> None:
    assert "c1" not in Scrubber([secret(value='a"b\\c1')]).text(text)

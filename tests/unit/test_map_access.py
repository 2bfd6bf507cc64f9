"""Who may read the map."""

from dataclasses import replace

import pytest

from spindle_cli.disk_map.access import HEADERS, Access, Asked

PORT = 4321


@pytest.fixture
def access() -> Access:
    return Access(PORT)


def good(access: Access) -> Asked:
    return Asked(method="GET", host=f"127.0.0.1:{PORT}", cookie=access.session)


def test_a_request_with_the_cookie_is_admitted(access: Access) -> None:
    assert access.refusal(good(access)) is None
    assert (
        access.refusal(replace(good(access), origin=f"http://127.0.0.1:{PORT}", site="same-origin")) is None
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"cookie": ""}, id="no-cookie"),
        pytest.param({"cookie": "x" * 43}, id="another-cookie"),
        pytest.param({"cookie": "\udcff"}, id="a-cookie-that-is-no-text"),
        pytest.param({"host": f"evil.example:{PORT}"}, id="dns-rebinding"),
        pytest.param({"host": "127.0.0.1"}, id="another-port"),
        pytest.param({"host": ""}, id="no-host"),
        pytest.param({"host": f"127.0.0.1:{PORT},127.0.0.1:{PORT}"}, id="two-hosts"),
        pytest.param({"origin": "http://evil.example"}, id="another-origin"),
        pytest.param({"origin": "null"}, id="sandboxed-origin"),
        pytest.param({"origin": f"https://127.0.0.1:{PORT}"}, id="another-scheme"),
        pytest.param({"site": "cross-site"}, id="embedded-by-another-site"),
        pytest.param({"site": "same-site"}, id="another-port-of-this-host"),
        pytest.param({"method": "POST"}, id="a-change"),
    ],
)
def test_everything_else_is_refused(access: Access, change: dict[str, str]) -> None:
    assert access.refusal(replace(good(access), **change)) is not None


def test_the_token_is_valid_once(access: Access) -> None:
    asked = replace(good(access), cookie="", token=access.token)

    assert access.refusal(asked) is None
    access.spend()
    assert access.refusal(asked) is not None
    assert access.refusal(good(access)) is None


def test_a_wrong_token_is_refused_even_with_the_cookie(access: Access) -> None:
    assert access.refusal(replace(good(access), token="x" * 43)) is not None


def test_the_token_does_not_make_up_for_a_wrong_host(access: Access) -> None:
    assert access.refusal(Asked(method="GET", host="evil.example", token=access.token)) is not None


def test_secrets_are_long_and_not_shown(access: Access) -> None:
    assert len({access.token, access.session, Access(PORT).token}) == 3
    assert min(len(access.token), len(access.session)) >= 43
    assert access.token not in repr(access)
    assert access.session not in repr(access)


def test_the_policy_permits_no_inline_script_and_no_other_origin() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy

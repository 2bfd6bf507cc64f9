from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from spindle.api.quantity import millicores, parse, whole

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("100Gi", 100 * 1024**3, id="binary"),
        pytest.param("100G", 100 * 1000**3, id="decimal"),
        pytest.param("1.5Ti", 3 * 1024**4 // 2, id="fraction"),
        pytest.param(".5Ki", 512, id="no-digit-before-the-point"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("1E3", 1000, id="capital-exponent"),
        pytest.param("1E", 10**18, id="exa"),
        pytest.param("12e-1", 2, id="rounds-up"),
        pytest.param("500m", 1, id="half-a-byte"),
        pytest.param("-1Ki", -1024, id="negative"),
        pytest.param("+1", 1, id="sign"),
        pytest.param(4096, 4096, id="number"),
        pytest.param("0", 0, id="zero"),
    ],
)
def test_bytes(text: str | int, value: int) -> None:
    assert whole(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2000), ("500m", 500), ("0.1", 100), ("1u", 1), (2, 2000), ("1.5", 1500)]
)
def test_millicores(text: str | int, value: int) -> None:
    assert millicores(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "100GB", "100 Gi", "1,5Gi", "0x10", "1Ki2", "--1", "1e", "1e1Gi", "ten", "1\n"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


@given(st.decimals(0, 10**6, places=3), st.sampled_from(SUFFIXES))
def test_as_the_client_library_has_it(number: Decimal, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    assert parse(text) == parse_quantity(text)


@given(st.integers(0, 2**60), st.sampled_from(SUFFIXES[4:]))
def test_larger_number_is_never_smaller(number: int, suffix: str) -> None:
    assert whole(f"{number}{suffix}") <= whole(f"{number + 1}{suffix}")

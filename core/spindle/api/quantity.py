"""Kubernetes quantities as numbers: 100Gi, 1.5T, 500m, 1e3 (``apimachinery/pkg/api/resource``)."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

_FACTORS: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_NUMBER: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]{1,3})|(?P<suffix>[A-Za-z]{0,2}))"
)


@lru_cache(maxsize=4096, typed=True)
def parse(text: str | int) -> Decimal:
    """The exact value of a quantity.

    Raises:
        ValueError: the text is not a quantity.
    """
    found = _NUMBER.fullmatch(str(text))
    suffix = (found["suffix"] or "") if found else None
    if found is None or suffix not in _FACTORS:
        raise ValueError(f"{text!r} is not a quantity: write a number and a unit, for example 100Gi or 500m")
    exponent = Decimal(10) ** int(found["exponent"] or 0)
    return Decimal(found["number"]) * exponent * _FACTORS[suffix]


def whole(text: str | int) -> int:
    """A quantity in bytes (or whatever its unit is), rounded up as Kubernetes does.

    Raises:
        ValueError: the text is not a quantity.
    """
    return int(parse(text).to_integral_value(ROUND_CEILING))


def millicores(text: str | int) -> int:
    """An amount of CPU in millicores, rounded up as Kubernetes does.

    Raises:
        ValueError: the text is not a quantity.
    """
    return int((parse(text) * 1000).to_integral_value(ROUND_CEILING))

"""A testbed of the tests' own, beside any other that may be up."""

from collections.abc import Iterator

import pytest

from e2e.cluster.layout import Layout
from e2e.cluster.testbed import Testbed

NAME = "selftest"


@pytest.fixture(scope="session")
def layout() -> Layout:
    return Layout.named(NAME)


@pytest.fixture(scope="module")
def bed(layout: Layout) -> Iterator[Testbed]:
    testbed = Testbed(layout)
    testbed.down()
    yield testbed
    testbed.down()

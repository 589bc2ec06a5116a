"""The served arena as a fixture."""

from collections.abc import Iterator

import pytest
from tests.web.arena import Arena, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[Arena]:
    """One arena for all tests of a module that leave nothing behind in it."""
    with serving() as made:
        yield made


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Two corners in the running stage; jobs run until they are stopped."""
    with serving() as made:
        yield made

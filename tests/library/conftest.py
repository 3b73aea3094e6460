"""A fresh registry for every test, so that declarations do not meet."""

from collections.abc import Iterator

import pytest

from stoker import registry
from stoker.registry import Registry


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    """The registry that this test declares its jobs in."""
    with registry.use(Registry()) as fresh:
        yield fresh

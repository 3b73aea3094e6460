"""A fresh registry for every test, so that declarations do not meet."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from stoker import registry
from stoker.registry import Registry
from tests.support import scaled

# Test machines are busy: an example that took long says nothing.
settings.register_profile("stoker", deadline=None, max_examples=scaled(60, 2_000))
settings.load_profile("stoker")


@pytest.fixture(autouse=True)
def declared() -> Iterator[Registry]:
    """The registry that this test declares its jobs in."""
    with registry.use(Registry()) as fresh:
        yield fresh

"""What every test runs under: memory that nobody wrote to is NaN."""

from collections.abc import Iterator

import pytest

from attnscope.testing import poison


@pytest.fixture(autouse=True)
def _poisoned() -> Iterator[None]:
    with poison():
        yield

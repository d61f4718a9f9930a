"""What every test runs under: memory that nobody wrote to is NaN."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from attnscope.testing import poison

# The suite tries the same examples every time, so that a red run means a change and not luck. To
# look for new ones: HYPOTHESIS_PROFILE=explore; what it finds becomes an @example.
settings.register_profile("steady", derandomize=True, deadline=None)  # a busy machine is no fault
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True)
def _poisoned() -> Iterator[None]:
    with poison():
        yield

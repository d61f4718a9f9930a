"""Tools that tests of attention code need, shipped because others need them too."""

from attnscope.testing.apart import EndedError, apart
from attnscope.testing.budget import Budget, budget
from attnscope.testing.implementations import attend_by, implementations, unable
from attnscope.testing.inputs import Inputs, adversarial, ordinary, qkv
from attnscope.testing.oracle import oracle
from attnscope.testing.poison import poison

__all__ = [
    "Budget",
    "EndedError",
    "Inputs",
    "adversarial",
    "apart",
    "attend_by",
    "budget",
    "implementations",
    "oracle",
    "ordinary",
    "poison",
    "qkv",
    "unable",
]

"""The examples in the docstrings run, and every public name of the core has one docstring."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import attnscope.core
import attnscope.testing

MODULES = [
    f"{package.__name__}.{info.name}"
    for package in (attnscope.core, attnscope.testing)
    for info in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    found = doctest.testmod(module)
    assert found.failed == 0


def test_there_are_examples_and_a_wrong_one_is_noticed() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    tests = [test for module in modules for test in doctest.DocTestFinder().find(module)]
    assert sum(len(test.examples) for test in tests) >= 10
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1


def test_public_names_are_documented() -> None:
    for package in (attnscope.core, attnscope.testing):
        for name in package.__all__:
            thing = getattr(package, name)
            assert not callable(thing) or thing.__doc__, name

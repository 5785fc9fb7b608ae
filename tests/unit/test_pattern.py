"""Patterns are compiled late: here all are, so that a wrong one fails a test and no user."""

import gc
import importlib
import pkgutil
import re

import pytest

import dare_reward
from dare_reward import _pattern
from dare_reward._pattern import pattern


def test_every_pattern_of_the_package_compiles():
    for module in pkgutil.walk_packages(dare_reward.__path__, "dare_reward."):
        if not module.name.endswith("__main__") and ".plugins." not in module.name:  # of stacks that are not installed
            importlib.import_module(module.name)
    gc.unfreeze()  # what is frozen, as tests/conftest.py does after the collection, is not among the objects
    declared = [p for p in gc.get_objects() if type(p) is _pattern._Pattern]
    assert len(declared) > 250
    for one in declared:
        re.compile(one.text, one.flags)


@pytest.mark.parametrize("method", _pattern.METHODS)
def test_a_late_pattern_does_what_a_compiled_one_does(method):
    late, early = pattern(r"(\w)b", re.IGNORECASE), re.compile(r"(\w)b", re.IGNORECASE)
    arguments = ("-", "aB xb") if method.startswith("sub") else ("aB xb",)
    results = [getattr(p, method)(*arguments) for p in (late, early)]
    assert _plain(results[0]) == _plain(results[1])


def _plain(value):
    if isinstance(value, re.Match):
        return value.span(), value.groups()
    return value if isinstance(value, str | list | tuple) else value and [m.span() for m in value]


def test_what_no_pattern_has_is_no_attribute():
    assert not hasattr(pattern("a"), "missing")

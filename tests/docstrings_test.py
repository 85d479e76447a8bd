"""The examples in docstrings are right, and public names have docstrings."""

import doctest
import importlib
import inspect
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# Programs define flags: two of them cannot live in one process.
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ROOT.glob("tf_dynacomm/**/*.py"))
    if "flags.DEFINE_" not in path.read_text() or path.name == "flags.py"
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_right(name):
    module = importlib.import_module(name)

    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_docstrings(name):
    module = importlib.import_module(name)
    public = {
        attribute: value
        for attribute, value in vars(module).items()
        if not attribute.startswith("_") and getattr(value, "__module__", None) == name
    }

    assert module.__doc__
    assert all(inspect.getdoc(value) for value in public.values() if callable(value))


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    modules = map(importlib.import_module, MODULES)

    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) > 5

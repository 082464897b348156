"""Functions fit on a screen, modules in the head."""

import pytest

from tests.tidy.sizes import function_size_faults, module_size_faults
from tests.tidy.source import ROOT, source, text_files

PYTHON = text_files(ROOT, ".py")


def test_modules_fit_in_the_head():
    sources = [*PYTHON, *text_files(ROOT, ".js", ".sh")]

    assert not [fault for each in sources for fault in module_size_faults(each)]


def test_functions_fit_on_a_screen():
    assert not [fault for each in PYTHON for fault in function_size_faults(each)]


@pytest.mark.parametrize(("path", "limit"), [("log/entry.py", 350), ("tests/unit/test_x.py", 500)])
def test_finds_a_long_module(path, limit):
    assert module_size_faults(source(path, "x = 1\n" * limit)) == []
    assert len(module_size_faults(source(path, "x = 1\n" * (limit + 1)))) == 1


@pytest.mark.parametrize(("name", "limit"), [("decide", 60), ("__init__", 15)])
@pytest.mark.parametrize("form", ["def", "async def"])
def test_finds_a_long_function(name, limit, form):
    """The docstring does not count, however long it is."""
    docstring = '"""Long.' + "\n" * 70 + '"""'
    head = f"class X:\n    {form} {name}(self):\n        {docstring}\n"
    statement = "        x = 1\n"

    assert function_size_faults(source("log/x.py", head + statement * (limit - 1))) == []
    assert len(function_size_faults(source("log/x.py", head + statement * limit))) == 1

"""Size limits. They are a prompt to look for the better split, so each exception says why."""

from __future__ import annotations

import ast
import statistics

from tests.tidy.checkout import PACKAGE, python_files, shown

MODULE_LINES_MAX = 400
TEST_MODULE_LINES_MAX = 600  # read case by case, not as a whole
FUNCTION_LINES_MAX = 60
MODULE_LINES_MEDIAN_MAX = 150
FUNCTION_LINES_MEDIAN_MAX = 10

# Over a limit today. An entry that is no longer needed fails the test: the list only shrinks.
TOLERATED: dict[str, str] = {}


def functions(source: str) -> list[tuple[str, int]]:
    """Name and lines of every function, decorators not counted."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_modules_and_functions_stay_small() -> None:
    over: dict[str, str] = {}
    for path in python_files():
        source = path.read_text()
        limit = MODULE_LINES_MAX if path.is_relative_to(PACKAGE) else TEST_MODULE_LINES_MAX
        if (lines := source.count("\n")) > limit:
            over[shown(path)] = f"{lines} lines"
        for name, lines in functions(source):
            if lines > FUNCTION_LINES_MAX:
                over[f"{shown(path)}:{name}"] = f"{lines} lines"

    assert over.keys() == TOLERATED.keys(), over


def test_the_typical_module_and_function_are_short() -> None:
    """A limit keeps the worst in bounds; the median says how the code reads."""
    sources = [path.read_text() for path in python_files() if path.is_relative_to(PACKAGE)]
    modules = [source.count("\n") for source in sources]
    lines = [lines for source in sources for _, lines in functions(source)]

    assert statistics.median(modules) <= MODULE_LINES_MEDIAN_MAX
    assert statistics.median(lines) <= FUNCTION_LINES_MEDIAN_MAX

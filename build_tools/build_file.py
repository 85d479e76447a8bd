"""Writes the `BUILD` file: a Bazel target for each module and each test, from their imports.

python build_tools/build_file.py
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ("benchmarks", "build_tools", "testdata", "tests", "tf_dynacomm")
_TEST_RUNNER = "build_tools/run_test.py"
_LOADED_BY_NAME = re.compile(r"tf_dynacomm(\.\w+)+")
_HEADER = '''"""A target for each module and each test. `make build-file` writes this file.

Packages from PyPI are not named here: they come from the Python environment (see setup.cfg).
"""

load("@rules_python//python:defs.bzl", "py_library", "py_test")

package(default_visibility = ["//visibility:public"])

licenses(["notice"])

exports_files(["LICENSE"])

filegroup(
    name = "data",
    srcs = glob(
        ["testdata/**"],
        exclude = ["**/*.py"],
    ),
)
'''


def content(root: pathlib.Path = ROOT) -> str:
    """Returns what `BUILD` should hold for a source tree."""
    sources = sorted(
        path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*.py")
    )
    return "\n".join([_HEADER, *(_target(root, source) for source in sources)])


def _target(root: pathlib.Path, source: pathlib.Path) -> str:
    deps = sorted(set(_dependencies(root, source)) - {_label(source)})
    if not source.name.endswith("_test.py"):
        return _rule(root, "py_library", source, deps, srcs=[f"{source}"])
    conftests = (folder / "conftest.py" for folder in source.parents)
    deps = sorted({*deps, *(_label(path) for path in conftests if (root / path).exists())})
    return _rule(
        root,
        "py_test",
        source,
        deps,
        srcs=[_TEST_RUNNER, f"{source}"],
        main=_TEST_RUNNER,
        args=[source],
    )


def _rule(
    root: pathlib.Path, kind: str, source: pathlib.Path, deps: list[str], **attributes
) -> str:
    lines = [f"{kind}(", f'    name = "{_label(source)[1:]}",']
    for name, value in attributes.items():
        lines += [f'    {name} = "{value}",'] if isinstance(value, str) else _list(name, value)
    if "testdata" in (root / source).read_text():
        lines += _list("data", [":data"])
    lines += _list("deps", deps) if deps else []
    return "\n".join([*lines, ")", ""])


def _list(name: str, values: Iterable[object]) -> list[str]:
    quoted = [f'"{value}"' for value in values]
    if len(quoted) == 1:
        return [f"    {name} = [{quoted[0]}],"]
    return [f"    {name} = [", *(f"        {value}," for value in quoted), "    ],"]


def _dependencies(root: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Yields the labels of the modules of this tree that a source imports, or names to import."""
    for node in ast.walk(ast.parse((root / source).read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [_module(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            package = _module(root, node.module)
            modules = [_module(root, f"{node.module}.{x.name}") or package for x in node.names]
        elif isinstance(node, ast.Constant) and _LOADED_BY_NAME.fullmatch(str(node.value)):
            modules = [_module(root, node.value)]
        yield from map(_label, filter(None, modules))


def _module(root: pathlib.Path, name: str) -> pathlib.Path | None:
    """Returns the source of a module or package of this tree, by its dotted name."""
    path = name.replace(".", "/")
    for source in (pathlib.Path(f"{path}.py"), pathlib.Path(path, "__init__.py")):
        if (root / source).exists():
            return source
    return None


def _label(source: pathlib.Path) -> str:
    """Returns the label of a source: `:a/b` for `a/b.py` and for `a/b/__init__.py`."""
    name = source.parent if source.name == "__init__.py" else source.with_suffix("")
    return f":{name}"


if __name__ == "__main__":
    (ROOT / "BUILD").write_text(content())

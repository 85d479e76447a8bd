"""`BUILD` has a target for each module and each test, with what they import."""

import graphlib
import pathlib
import re

import pytest

from build_tools import build_file

pytestmark = pytest.mark.usefixtures("garbage_kept")


def _tree(root: pathlib.Path, **sources: str) -> pathlib.Path:
    for name, text in sources.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _target(content: str, name: str) -> str:
    return re.search(rf'py_\w+\(\n    name = "{name}",\n.*?\n\)\n', content, re.DOTALL)[0]


def test_file_is_up_to_date():
    expected = build_file.content()

    assert (build_file.ROOT / "BUILD").read_text() == expected, "run `make build-file`"


def test_each_source_has_a_target():
    content = build_file.content()

    for folder in build_file.FOLDERS:
        for source in (build_file.ROOT / folder).rglob("*.py"):
            assert f'"{source.relative_to(build_file.ROOT)}"' in content


def test_no_target_depends_on_itself():
    targets = re.findall(r'name = "(.*?)",\n(.*?)\n\)\n', build_file.content(), re.DOTALL)
    deps = {name: re.findall(r'":(.*?)"', attributes) for name, attributes in targets}

    graphlib.TopologicalSorter(deps).prepare()


def test_library_depends_on_what_it_imports(tmp_path):
    root = _tree(
        tmp_path,
        tf_dynacomm__a="from tf_dynacomm import b\nimport numpy",
        tf_dynacomm__b="from tf_dynacomm.c import name",
        tf_dynacomm__c="def f():\n    from tf_dynacomm import d",
        tf_dynacomm__d="MODULE = 'tf_dynacomm.e'",
        tf_dynacomm__e="",
    )

    content = build_file.content(root)

    assert 'deps = [":tf_dynacomm/b"]' in _target(content, "tf_dynacomm/a")
    assert 'deps = [":tf_dynacomm/c"]' in _target(content, "tf_dynacomm/b")
    assert 'deps = [":tf_dynacomm/d"]' in _target(content, "tf_dynacomm/c")
    assert 'deps = [":tf_dynacomm/e"]' in _target(content, "tf_dynacomm/d")
    assert "deps" not in _target(content, "tf_dynacomm/e")


def test_test_depends_on_the_conftests_above_it(tmp_path):
    root = _tree(tmp_path, tests__conftest="", tests__x__conftest="", tests__x__a_test="")

    target = _target(build_file.content(root), "tests/x/a_test")

    assert target.startswith("py_test")
    assert '":tests/conftest",\n        ":tests/x/conftest"' in target

"""Networks for the tests of links."""

import contextlib

import pytest

from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed import namespaces


@pytest.fixture(params=["namespaces", "relay"])
def how(request) -> str:
    if request.param == "namespaces" and namespaces.obstacle() is not None:
        pytest.skip(f"no network namespaces: {namespaces.obstacle()}")
    return request.param


@pytest.fixture
def needs_namespaces() -> None:
    if namespaces.obstacle() is not None:
        pytest.skip(f"no network namespaces: {namespaces.obstacle()}")


@pytest.fixture
def opened():
    """Opens links, and closes them after the test."""
    with contextlib.ExitStack() as stack:

        def open_links(links: links_lib.Links, workers: int = 1, ps: int = 1):
            stack.callback(links.close)
            return links.open({"worker": workers, "ps": ps})

        yield open_links

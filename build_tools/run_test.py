"""Runs pytest on the files that are named on the command line, as Bazel's tests do."""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(sys.argv[1:]))

"""What holds for every run of the tests: each plugin in ``tests/suite`` is one rule."""

import pytest

pytest_plugins = [
    "suite.kept_cache",
    "suite.models",
    "suite.shares",
    "suite.rooms",
    "suite.doctests",
    "suite.time_limits",
    "suite.batteries",
]

collect_ignore = ["tests/support/make_spark_models.py"]
"""It needs Spark, and is run by hand."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that write files instead of comparing with them, and those of one test."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files instead of comparing with them",
    )
    parser.addoption(
        "--update-support",
        action="store_true",
        help="ask anew what each backend supports; write hbconv/support.json and its page",
    )
    parser.addoption(
        "--foreign",
        type=float,
        default=0.01,
        help="share of scikit-learn's own tests to run with hbconv asked too (full run: 1)",
    )

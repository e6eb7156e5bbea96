"""A pytest plugin that runs a share of the tests: which, their names alone decide."""

from zlib import crc32


def pytest_addoption(parser):
    parser.addoption("--share", type=float, default=1.0, help="share of the tests to run")


def pytest_collection_modifyitems(config, items):
    limit = config.getoption("--share") * 2**32
    chosen = [item for item in items if crc32(item.nodeid.encode()) < limit]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen

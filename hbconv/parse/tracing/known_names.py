"""Names that a function may use: what they are, or why they are refused."""

from __future__ import annotations

__all__ = ["BEYOND", "BUILTINS", "IMPURE", "OF_NUMPY", "VALUES"]

IMPURE = {
    "numpy.random": "chance",
    "random": "chance",
    "secrets": "chance",
    "uuid": "chance",
    "time": "the clock",
    "datetime": "the clock",
    "os": "files or the process",
    "io": "files",
    "pathlib": "files",
    "shutil": "files",
    "subprocess": "the process",
    "sys": "the process",
    "threading": "the process",
    "multiprocessing": "the process",
    "gc": "the process",
    "ctypes": "the process",
    "inspect": "the process",
    "builtins": "the process",
    "importlib": "the process",
    "socket": "the network",
    "urllib": "the network",
    "requests": "the network",
    "http": "the network",
    "pickle": "files",
    "joblib": "files",
}
"""Modules that give something else each time, or do what a model does not."""

OF_NUMPY = (
    "abs array arange asarray all any broadcast_to ceil concatenate copy cumsum diag "
    "digitize dot exp eye flip floor full geomspace hstack identity interp isin isnan "
    "linspace log logspace max mean median meshgrid min ones outer percentile prod quantile "
    "ravel repeat reshape searchsorted sort sqrt stack std sum tile transpose tril_indices "
    "triu_indices unique var "
    "vstack where zeros"
)
"""Functions of numpy that a function may call with constants: they depend on nothing else."""

VALUES = (
    "e euler_gamma inf nan newaxis pi bool_ float32 float64 int64 floating integer number "
    "generic dtype finfo iinfo errstate"
)
"""Names of numpy that are what they are."""

BUILTINS = (
    "ArithmeticError AssertionError AttributeError BaseException Exception False "
    "FloatingPointError IndexError KeyError LookupError None NotImplemented "
    "NotImplementedError OverflowError RuntimeError StopIteration True TypeError "
    "UserWarning ValueError Warning ZeroDivisionError abs all any bool callable complex "
    "bytes dict divmod enumerate filter float frozenset getattr hasattr int issubclass iter list "
    "map max min next object pow property range repr reversed round set slice sorted str "
    "sum tuple zip Ellipsis"
)
"""Builtins that are what they are: what would need values of the rows refuses in them."""


BEYOND = (
    "sample to_clipboard to_csv to_excel to_feather to_hdf to_html to_json to_latex to_markdown "
    "to_orc to_parquet to_pickle to_sql to_stata to_string to_xml plot hist boxplot"
)
"""Methods of pandas that are chance, or that write."""

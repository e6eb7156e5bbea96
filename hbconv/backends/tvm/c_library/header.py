"""The header of a library: its functions, what they take, and what they answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hbconv import __version__
from hbconv.backends.tvm.c_library.function import CFunction
from hbconv.backends.tvm.c_library.literals import texts
from hbconv.backends.tvm.c_library.source import input_name, signature

__all__ = ["class_arrays", "header_text"]

MOST_LETTERS = 2000
"""Letters of names in one comment."""

TEXT = """\
/* {estimator}, compiled by hbconv {version}.

   Each function answers `rows` rows and returns 0. Matrices are in C order, one row after another.
   Texts are UTF-8 and end in a null character; NULL is a missing text, as is the empty text.
   Otherwise the function returns a status, and {prefix}_message(status) says why; what stands in
   the answer then means nothing. Functions may be called from any number of threads at once. */

#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{functions}
/* Why a function returned another status than 0; NULL for other numbers. */
const char *{prefix}_message(int32_t status);

#ifdef __cplusplus
}}
#endif

#endif
"""


def header_text(estimator: str, methods: list[CFunction], prefix: str) -> str:
    """Return the text of a header."""
    functions = "".join(f"{line}\n" for method in methods for line in _declared(method, prefix))
    guard = f"{prefix.upper()}_H"
    return TEXT.format(
        estimator=_comment(estimator),
        version=__version__,
        prefix=prefix,
        guard=guard,
        functions=functions,
    )


def _declared(method: CFunction, prefix: str) -> Iterator[str]:
    yield f"/* {method.name}"
    for given in method.inputs:
        what = "texts" if given.is_text else f"rows x {len(given.columns)}"
        yield f"   {input_name(given)}: {what}, of {_comment(', '.join(given.columns))}"
    (answer,) = method.answers
    shape = " x ".join(["rows", *map(str, answer.told.shape)])
    coded = ", codes of classes" if answer.told.classes else ""
    yield f"   answer: {shape}{coded} */"
    yield f"{signature(method, prefix)};"
    for name, values in class_arrays(method, prefix):
        yield f"extern const char *const {name}[{len(values)}]; /* {_comment(texts(values))} */"
    yield ""


def class_arrays(method: CFunction, prefix: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names and labels of the arrays that codes are places in, one for each target."""
    tables = method.answers[0].told.classes or ()
    name = f"{prefix}_{method.name}_classes"
    names = [name] if len(tables) == 1 else [f"{name}_{i}" for i in range(len(tables))]
    pairs = zip(names, tables, strict=True)
    return [(name, tuple(map(str, table))) for name, table in pairs]


def _comment(text: str) -> str:
    """Return the beginning of a text, without what ends a comment or acts in a terminal."""
    begin = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", begin.replace("*/", "* /"))

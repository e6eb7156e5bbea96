"""Count n-grams of documents of every length, by each kernel of texts.

    HBCONV_GUARD=pages-behind HBCONV_MACHINE=/64 python tests/unit/backends/tvm/text_edges.py

Each buffer lies beside a protected page. A kernel that reads or writes outside its memory ends the
process. Entries are compared with those that numpy finds.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.runtime.text import counters, vectorize
from hbconv.runtime.text.counters import Documents, counter_of

LETTERS = ("abc", "a b", "é b", "b\u00a0\u2003a", "日 a", "\U0001f600a")
SIZES = ((1, 1), (1, 3), (7, 9))


def main() -> None:
    """Run each kernel."""
    rng = np.random.default_rng(0)
    counters.MANY = 0
    documents = [
        "".join(rng.choice(list(letters), size)) for letters in LETTERS for size in range(26)
    ]
    # A document alone is read beside a page.
    calls = [documents, *([documents[at]] for at in range(0, len(documents), 11))]
    for unit, (shortest, longest) in product(("word", "char", "char_wb"), SIZES):
        texts = Texts(unit, shortest, longest, r"\w+")
        names = {
            document[first : first + size]
            for document, size in product(documents, (1, 2, 3, 7, 8, 9))
            for first in range(len(document) - size + 1)
        }
        for columns in (Terms(tuple(sorted(names))), Buckets(64)):
            extractor = Extractor(texts, columns)
            for call in calls:
                compare(call, extractor)


def compare(documents: list[str], extractor: Extractor) -> None:
    """Compare the entries of documents that the kernel read."""
    counter = counter_of(extractor, len(documents))
    counted = counter.count(Documents.of_texts(documents))
    wanted = vectorize._cut_block(documents, extractor, "Column 0")
    sizes = np.diff(wanted[0])
    is_read = ~np.isin(np.arange(len(documents)), counted.unread)
    of_read = np.repeat(is_read, sizes)
    np.testing.assert_array_equal(np.diff(counted.starts), np.where(is_read, sizes, 0))
    np.testing.assert_array_equal(counted.columns, wanted[1][of_read])
    np.testing.assert_array_equal(counted.sums, wanted[2][of_read])


if __name__ == "__main__":
    main()

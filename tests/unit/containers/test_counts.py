"""Counts of nodes are checked against their tables before anything is made of them."""

import dataclasses

import numpy as np
import pytest

import hbconv
from hbconv.array import Array
from hbconv.containers import NODES, Columns, Graph, Output, Schema
from hbconv.runtime.storage.codec import decode, encode

X = Columns.of(Schema.matrix(6))
TABLE = Array(np.eye(3, 6))
WIDE = Array(np.eye(3, 5))


def node(name, *fields, **named):
    return NODES[name](X, *fields, **named)


WRONG = {
    "endless codes": lambda: node("LassoDescent", TABLE, 0.1, False, 1e-4, 2**60),
    "a tolerance that is never met": lambda: node("LassoDescent", TABLE, 0.1, False, -1.0, 9),
    "no tolerance": lambda: node("TopicMixture", TABLE, 0.1, np.nan, 9),
    "endless topics": lambda: node("TopicMixture", TABLE, 0.1, 0.0, 2**60),
    "rounds below zero": lambda: node("TopicMixture", TABLE, 0.1, 0.0, -1),
    "endless weights": lambda: node("NonNegativeWeights", TABLE, 0.0, 0.0, 0.0, 2**60),
    "endless paths": lambda: node("LeastAngles", TABLE, "lasso", 0.0, 2**60),
    "more atoms than there are": lambda: node("MatchingPursuit", TABLE, 4),
    "a dictionary of another width": lambda: node("MatchingPursuit", WIDE, 2),
    "no atoms": lambda: node("LeastAngles", Array(np.zeros((0, 6))), "lasso", 0.0, 5),
    "a dictionary too long": lambda: node(
        "LeastAngles", Array(np.zeros((9000, 6))), "lasso", 0.0, 5
    ),
    "classes without pairs": lambda: NODES["PairVotes"](X, X, 3000),
    "no class": lambda: node("PairwiseCoupling", 0),
    "pairs of other classes": lambda: node("PairwiseCoupling", 5),
    "no groups": lambda: node("ArgMax", 0),
    "groups below zero": lambda: node("Softmax", "", -2),
    "uneven groups": lambda: node("TableSoftmax", 4),
    "more groups than columns": lambda: node("GroupSums", 2**40),
    "sums of no group": lambda: node("RunningSums", 0),
    "a log of no group": lambda: node("LogAdd", 0),
    "groups of columns that are not there": lambda: node("Pool", ((0, 6),), "max"),
    "a degree without end": lambda: node("SplineBasis", Array(np.ones((6, 9))), 2**60),
    "a degree below zero": lambda: node("SplineBasis", Array(np.ones((6, 9))), -1),
    "sizes of other columns": lambda: node("OneHot", (2**40,)),
    "sizes below zero": lambda: node("OneHot", (1, 1, 1, 1, 1, -1)),
    "no columns to scatter over": lambda: NODES["Scatter"](X, X, -1),
    "more neighbours than entries": lambda: NODES["Nearest"](
        X, 2**40, None, None, (), None, None, False
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_with_a_wrong_count_is_refused_before_it_is_lowered(name, monkeypatch):
    wrong = WRONG[name]()
    assert wrong.check()
    for kind in ("infer", "lower"):
        monkeypatch.setattr(type(wrong), kind, never)
    document, arrays = written(wrong)
    with pytest.raises(hbconv.StoreError, match=r"The model file holds a \w+ that "):
        decode(document, arrays)


def never(*_):
    raise AssertionError("made of a count that was not checked")


def written(wrong):
    """Write a node as a file holds it, behind the columns that it reads."""
    document, _ = encode(X)
    arrays = {}
    fields = {field.name: getattr(wrong, field.name) for field in dataclasses.fields(wrong)}
    for name, value in fields.items():
        if isinstance(value, Array):
            arrays[name] = value.data
            fields[name] = {"array": name}
        elif isinstance(value, tuple):
            parts = [{"tuple": [*v]} if isinstance(v, tuple) else v for v in value]
            fields[name] = {"tuple": parts}
        elif value is X:
            fields[name] = document["root"]
        elif isinstance(value, float) and np.isnan(value):
            fields[name] = {"float": "nan"}
    made = {"is": type(wrong).__name__, **fields}
    shared = [*document["shared"], made]
    return {"shared": shared, "root": {"shared": len(shared) - 1}}, {**encode(X)[1], **arrays}


def test_honest_counts_pass():
    honest = (
        node("LassoDescent", TABLE, 0.1, False, 0.0, 1_000_000),
        node("NonNegativeWeights", TABLE, 0.0, 0.0, 1e-4, 10_000),
        node("LeastAngles", TABLE, "angles", 0.0, 1000),
        node("MatchingPursuit", TABLE, 3),
        node("PairwiseCoupling", 4),
        NODES["PairVotes"](X, X, 4),
        node("ArgMax", 3),
        node("SplineBasis", Array(np.ones((6, 9))), 3),
        node("OneHot", (0, 1, 2, 3, 4, 5)),
    )
    assert [each.check() for each in honest] == [None] * len(honest)


def test_a_parsed_model_with_a_wrong_count_is_refused_by_name():
    from hbconv.parse.soundness import require_sound

    graph = Graph(X.schema, {"transform": Output(WRONG["endless weights"]())})
    with pytest.raises(hbconv.ConversionError, match=r"does not fit .*repeats up to"):
        require_sound(graph)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_pairs_of_each_class_are_in_order(k):
    columns = Columns.of(Schema.matrix(k * (k - 1) // 2))
    own, second = NODES["PairVotes"](columns, columns, k)._pairs_of_classes()
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for label in range(k):
        assert own[label].tolist() == [n for n, pair in enumerate(pairs) if label in pair]
        assert second[label].tolist() == [pair[1] == label for pair in pairs if label in pair]

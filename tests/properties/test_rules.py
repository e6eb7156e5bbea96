"""Every rule, and all together, on random graphs: both sides give the same numbers, and the
result verifies.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import graphs, rows_for, run

from hbconv.containers import Graph, verify_graph
from hbconv.optimize import REWRITES, RULES, optimize
from hbconv.optimize.rule import Exactness, GraphRule, NodeRule, simplify
from hbconv.optimize.search import Refused, Search


def rewritten(graph: Graph, rule: NodeRule | GraphRule) -> Graph:
    """Apply one rule wherever it can be."""
    if isinstance(rule, NodeRule):
        return simplify(graph, [rule])
    return Search(graph, (), (rule,), lambda _: 0.0).derive(Refused()).graph


def check_same(before: Graph, after: Graph, exactness: Exactness) -> None:
    """Both graphs give the same numbers: the same bits but for a zero's sign, or within 1e-12."""
    verify_graph(after)
    rows = rows_for(before)
    expected = run(before, rows)
    found = run(after, rows)
    for name, output in before.outputs.items():
        assert after.outputs[name].node.type == output.node.type
        if exactness is Exactness.BITS:
            # Adding 0.0 is left out where a column is computed alone: -0.0 keeps its sign there.
            assert (found[name] + 0).tobytes() == (expected[name] + 0).tobytes()
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", [*RULES, *REWRITES], ids=lambda rule: rule.name)
@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_a_rule_keeps_the_answer(rule: NodeRule | GraphRule, graph: Graph) -> None:
    check_same(graph, rewritten(graph, rule), rule.exactness)


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_all_rules_keep_the_answer(graph: Graph) -> None:
    check_same(graph, optimize(graph).graph, Exactness.TOLERANCE)

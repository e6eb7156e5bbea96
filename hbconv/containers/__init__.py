"""The container DAG: what a model computes, in about thirty nouns of meaning.

Each container is a small frozen class: its type rule, its lowering to primitives, and how it prints. Importing this
package imports every module of the folder, so a new container is one new file.
"""

import importlib
import pkgutil

from hbconv.containers.columns_out import Container, NamesOut
from hbconv.containers.graph import Check, Graph, Traits, verify_graph
from hbconv.containers.node import NODES, Node, container, current_source, rewrite, source, topological
from hbconv.containers.output import Output, Paths
from hbconv.containers.show import show, show_rule
from hbconv.containers.types import Column, Conventions, Schema, Type

__all__ = [
    "NODES",
    "Check",
    "Column",
    "Container",
    "Conventions",
    "Graph",
    "NamesOut",
    "Node",
    "Output",
    "Paths",
    "Schema",
    "Traits",
    "Type",
    "container",
    "current_source",
    "rewrite",
    "show",
    "show_rule",
    "source",
    "topological",
    "verify_graph",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

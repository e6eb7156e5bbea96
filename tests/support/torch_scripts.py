"""Free what TorchScript keeps of models that are gone."""

from __future__ import annotations

import gc

import torch

__all__ = ["free_scripts"]


def free_scripts() -> bool:
    """Free the classes of all scripted modules, if none is left; return whether they were freed.

    TorchScript keeps the graphs and execution plans of each module that it traced until the
    process ends, 20 to 110 MB for the trees of a case. Torch's own tests free them in the same
    way. A module that is left would crash when it is called.
    """
    gc.collect()
    if any(issubclass(type(found), torch.jit.ScriptModule) for found in gc.get_objects()):
        return False
    torch._C._jit_clear_class_registry()
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()
    return True

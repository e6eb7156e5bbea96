"""Check the options of a conversion before any work is done.

Substitutes: an installed backend for a loaded model, where its own is not installed.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, get_args

from hbconv.backends import Backend, find_backend, find_installed
from hbconv.errors import BackendError, MissingPackageError, OptionError
from hbconv.names import guess, unknown, unknown_device
from hbconv.target import Precision, Target

__all__ = [
    "OPERATORS",
    "change_target",
    "check_options",
    "check_values",
    "compiling_target",
    "find_runnable",
    "find_substitute",
    "read_machines",
    "require_machines",
    "take_flag",
    "take_options",
]

OPERATORS = "HBCONV_TORCH_OPERATORS"
"""Variable of the environment: ``plain`` is ``native=False`` for all models of torch."""
_TREE_OPS = ("native", "core")


def change_target(target: Target, changes: Mapping[str, Any]) -> Target:
    """Return the target with options changed and checked, or raise OptionError.

    Its errors are those of ``check_options``, and one for an option that no target has.
    """
    for name in changes:
        _require_known("option", name, tuple(option.name for option in fields(Target)))
    if "machines" not in changes:
        return check_options(target.replace(**changes))
    machines = read_machines(changes["machines"])
    return require_machines(check_options(target.replace(**{**changes, "machines": machines})))


def check_options(target: Target) -> Target:
    """Return the target, or raise OptionError for a value that does not exist.

    The message names the nearest values that do.

    Raises
    ------
    OptionError
        Backend, device, precision, strategy, tree_ops or a rule is unknown, or one of rows, memory
        and threads is not a positive int.
    MissingPackageError
        The backend's packages are not installed; the message holds the command that installs them.
    """
    find_backend(target.backend).require_packages()
    return check_values(target)


def check_values(target: Target) -> Target:
    """Return the target, or raise OptionError as ``check_options`` does; its packages may miss."""
    _require_known("precision", target.precision, get_args(Precision))
    _require_known("tree_ops", target.tree_ops, _TREE_OPS)
    _require_flag("native", target.native)
    if target.strategy is not None:
        from hbconv.trees.strategy import find_strategy

        find_strategy(target.strategy)
    for name in ("rows", "memory", "threads"):
        _require_positive(name, getattr(target, name))
    read_machines(target.machines)
    for name in target.without:
        from hbconv.optimize import rule_names

        _require_known("rule", name, rule_names())
    _check_device(target.device, find_backend(target.backend))
    return target


def read_machines(machines: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of machines, each once.

    Raises
    ------
    OptionError
        No machine has one of these names.

    Examples
    --------
    >>> read_machines(["aarch64", "x86-64-v3", "aarch64"])
    ('aarch64', 'x86-64-v3')
    """
    from hbconv.backends.tvm.machine.machine import Machine

    if not isinstance(machines, Iterable):
        raise OptionError(f"machines={machines!r} is no sequence of names, as ['aarch64'] is.")
    names = [machines] if isinstance(machines, str) else list(machines)
    return tuple(dict.fromkeys(Machine.named(name, "machine").level for name in names))


def require_machines(target: Target) -> Target:
    """Return the target, or raise OptionError where files cannot hold the machines it names."""
    if not target.machines:
        return target
    named = f"machines={[*target.machines]}"
    if sys.platform != "linux":
        raise OptionError(f"{named} is for Linux, and compiled there alone. Leave it out.")
    compiled = compiling_target(target)
    if not compiled.machines:
        raise OptionError(
            f"{named} is for kernels of backend 'tvm' on the CPU, and this model is compiled by "
            f"{compiled.backend!r} for {compiled.device!r}. Leave it out, or convert with "
            "backend='tvm'."
        )
    return target


def compiling_target(target: Target, *, stored: bool = False) -> Target:
    """Return what the programs of a target are compiled for.

    That is the target itself; but backend ``tvm``, whose kernels torch calls as an operator, for
    torch on the CPU. What no kernels of the CPU are compiled for names no machines.

    Parameters
    ----------
    target : Target
    stored : bool
        Kernels were stored with the model, which run where TVM is not installed.

    Examples
    --------
    >>> compiling_target(Target("torch", native=False)).backend
    'torch'
    """
    compiled = _by_kernels(target, stored)
    on_machines = (compiled.backend, compiled.device) == ("tvm", "cpu")
    return compiled if on_machines or not compiled.machines else compiled.replace(machines=())


def _by_kernels(target: Target, stored: bool) -> Target:
    """Return the target of the kernels that torch calls on the CPU; others as they are."""
    is_native = target.native and os.environ.get(OPERATORS) != "plain"
    if target.backend != "torch" or target.device != "cpu" or not is_native:
        return target
    is_at_hand = stored or all(map(find_spec, find_backend("tvm").needs))
    return target.replace(backend="tvm") if is_at_hand else target


def take_options(
    kind: str, options: Mapping[str, Any], names: tuple[str, ...]
) -> Mapping[str, Any]:
    """Return the options of an export, or raise OptionError where one is not of its kind."""
    for name in options:
        if name not in names:
            takes = f"It takes {', '.join(names)}." if names else "It takes none."
            raise OptionError(
                f"An export to {kind!r} has no option {name!r}.{guess(name, names)} {takes}"
            )
    return options


def take_flag(options: dict[str, Any], name: str) -> bool:
    """Remove an option that is on or off (by default off), or raise OptionError."""
    value = options.pop(name, False)
    _require_flag(name, value)
    return bool(value)


def _require_flag(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise OptionError(f"{option}={value!r} must be True or False.")


def _require_known(option: str, value: object, values: tuple[str, ...]) -> None:
    if value not in values:
        raise unknown(option, value, values)


def _require_positive(option: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionError(f"{option}={value!r} must be a positive whole number.")


def _check_device(device: str, backend: Backend) -> None:
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise unknown_device(device)
    if kind not in backend.devices:
        raise OptionError(
            f"Backend {backend.name!r} runs on {', '.join(backend.devices)}, not on {device!r}. "
            "Use backend='torch' for CUDA."
        )
    if kind == "cuda":
        _require_cuda(int(number or 0), backend)


def _require_cuda(number: int, backend: Backend) -> None:
    try:
        count = backend.cuda_devices()
    except BackendError as error:
        raise OptionError(f"Device 'cuda:{number}' is not available. {error}") from error
    if number >= count:
        who, way = backend.finds_devices
        raise OptionError(
            f"Device 'cuda:{number}' is not available: {who} sees {count} CUDA devices. Use "
            f"device='cpu', or install {way}."
        )


def find_runnable(target: Target, *, stored: bool) -> Target:
    """Return the target that a file was saved for, or a substitute.

    Parameters
    ----------
    target : Target
    stored : bool
        The file holds compiled programs.
    """
    try:
        backend = find_backend(compiling_target(target, stored=stored).backend)
        # Stored programs of some backends run without the packages that compiled them.
        if not (stored and backend.runs_stored):
            backend.require_packages()
    except MissingPackageError as error:
        return find_substitute(target, error)
    return target


def find_substitute(target: Target, error: MissingPackageError) -> Target:
    """Return the target for the fastest backend that is installed, and warn that it is slower."""
    name = find_installed(target.device)
    warnings.warn(
        f"{error}. Until then backend {name!r} computes what is not compiled yet, more slowly. Or "
        "call model.compile(sample) with rows of these dtypes where it is installed, save the "
        "model, and load it with trusted=True.",
        UserWarning,
        stacklevel=2,
    )
    return target.replace(backend=name, strategy=None)

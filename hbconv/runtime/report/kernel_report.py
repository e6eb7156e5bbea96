"""MethodKernel: what the kernel of a method reads and writes, and what its operators cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hbconv.backends import find_backend
from hbconv.backends.base import KernelReport
from hbconv.backends.cuda.device_report import DeviceReport
from hbconv.cost_model import CLOCK, OperatorCost, predict
from hbconv.optimize.program_cost import tree_seconds
from hbconv.target import Target
from hbconv.tensor import Op, TensorProgram

__all__ = ["MethodKernel"]

SHOWN = 12
"""Operators that are printed, the dearest."""


@dataclass(frozen=True)
class MethodKernel:
    """The kernel of one method.

    Parameters
    ----------
    method : str
    report : KernelReport or DeviceReport
    costs : tuple of OperatorCost
        Predicted, the dearest first.
    """

    method: str
    report: KernelReport | DeviceReport
    costs: tuple[OperatorCost, ...]

    @staticmethod
    def of(method: str, program: TensorProgram, target: Target) -> MethodKernel:
        """Report on a method's program, prepared for the backend."""
        backend = find_backend(target.backend)

        def price(op: Op) -> float:
            dtype = program.instructions[op.operands[0]].type.dtype
            return tree_seconds(
                op.attributes["forest"], op.attributes["strategy"], target, backend, dtype
            )

        predicted = predict(program, target, price)
        costs = sorted(predicted, key=lambda cost: -cost.seconds)
        return MethodKernel(method, backend.report(program, target), tuple(costs))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            **asdict(self.report),
            "operators": [{**asdict(cost), "cycles": cost.cycles} for cost in self.costs],
        }

    def __str__(self) -> str:
        title, total = f"Kernel of {self.method}", sum(cost.seconds for cost in self.costs)
        shown = [
            f"  {cost.cycles:>12,.1f} cycles  {cost.operator}  {cost.source}".rstrip()
            for cost in self.costs[:SHOWN]
        ]
        rest = self.costs[SHOWN:]
        others = (
            [f"  {sum(cost.cycles for cost in rest):>12,.1f} cycles  {len(rest)} others"]
            if rest
            else []
        )
        basis = (
            f"{total * 1e9:,.1f} ns a row predicted, {total * CLOCK:,.0f} cycles at {CLOCK / 1e9} "
            "GHz: counted work at the prices measured on one machine"
        )
        return "\n".join([title, "-" * len(title), str(self.report), basis, *shown, *others])

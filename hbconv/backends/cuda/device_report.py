"""DeviceReport: the launches of a program on a CUDA device, the bytes they move, their clocks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceReport", "LaunchReport"]


@dataclass(frozen=True)
class LaunchReport:
    """One kernel.

    Parameters
    ----------
    kernel : str
        Its name and constants.
    bytes_moved : float
        Bytes of a row that it reads and writes, without tables.
    registers, stack_bytes, shared_bytes : int
        Of a thread, of a thread, and of a block.
    clocks : float
        Predicted clocks a row and multiprocessor.
    limit : str
        What takes them; empty where a later kernel counts them.
    """

    kernel: str
    bytes_moved: float
    registers: int
    stack_bytes: int
    shared_bytes: int
    clocks: float
    limit: str

    def __str__(self) -> str:
        clocks = f"predicted {self.clocks:,.1f} clocks a row, limited by {self.limit}"
        return (
            f"  {self.kernel}: {self.bytes_moved:,.0f} bytes of a row moved; "
            f"{self.registers} registers and {self.stack_bytes:,} bytes of stack a thread, "
            f"{self.shared_bytes:,} bytes of shared memory a block; "
            f"{clocks if self.limit else 'clocks counted with the kernel after it'}"
        )


@dataclass(frozen=True)
class DeviceReport:
    """A program on a CUDA device, for batches.

    Parameters
    ----------
    device : str
        Architecture that it is compiled for.
    launches : tuple of LaunchReport
    bytes_read, bytes_written, bytes_between : float
        Bytes of a row: of the inputs, of the outputs, and of values between kernels.
    table_bytes : int
        Bytes of constants.
    """

    device: str
    launches: tuple[LaunchReport, ...]
    bytes_read: int
    bytes_written: int
    bytes_between: float
    table_bytes: int

    @property
    def clocks(self) -> float:
        """Predicted clocks a row and multiprocessor, of all launches."""
        return sum(launch.clocks for launch in self.launches)

    def __str__(self) -> str:
        count = len(self.launches)
        launches = "1 launch" if count == 1 else f"{count} launches"
        clocks = f"predicted {self.clocks:,.1f} clocks a row and multiprocessor; none was measured"
        read = f"{self.bytes_read:,} bytes of a row read, {self.bytes_written:,} written"
        rest = f"{self.bytes_between:,.0f} between launches; {self.table_bytes:,} bytes of tables"
        lines = [f"{launches} for {self.device}, {clocks}", f"{read}, {rest}"]
        return "\n".join([*lines, *map(str, self.launches)])

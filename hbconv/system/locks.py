"""Locks of files, which end with their process."""

from __future__ import annotations

__all__ = ["lock_file"]


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file until it is closed, or its process ends.

    Returns True where it is locked now, False where another process has it, and None where files
    cannot be locked: the system has no locks, or the file system has none.
    """
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lock_on_windows(descriptor: int) -> bool | None:
    try:
        import msvcrt
    except ImportError:
        return None
    try:
        # One byte is locked, from where the file stands: at its beginning.
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except PermissionError:
        return False
    except OSError:
        return None
    return True

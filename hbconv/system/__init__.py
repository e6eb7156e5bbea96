"""What systems differ in: a module for each, which has what other systems do instead.

No other part of hbconv imports ``fcntl`` or ``msvcrt``, or reads ``/proc`` and ``/sys``.
"""

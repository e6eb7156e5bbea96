"""What hbconv asks of the system: files, a cache, locks, processes, the processor, temporaries.

A module holds what systems differ in, and what other systems do instead. No other part of hbconv
imports ``fcntl`` or ``msvcrt``, or reads ``/proc`` and ``/sys``.
"""

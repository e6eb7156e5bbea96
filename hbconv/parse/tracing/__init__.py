"""Tracing: read what a function of the user does to columns into nodes.

The function runs once, as compiled, over values that record (``arrays``). Its globals, builtins and
closure are doubles of the real ones (``rebuild``), which refuse by name what a model cannot keep:
values that decide, other rows, chance, the clock, files. What it recorded is then compared with the
function itself (``judge``). Neither the function nor its code is kept.
"""

"""Processes: a supervisor starts generations, and each of them forks workers that answer.

The rule of this room: a worker never changes. Other models are another generation.
"""

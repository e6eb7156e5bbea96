"""Oblivious trees: all splits of a level are the same one."""

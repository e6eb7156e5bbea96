"""Shared libraries with a C header: a function for each method, and no runtime but the C one."""

"""The containers, by theme. Importing this package imports every module of the folder, so a new theme is one new file."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

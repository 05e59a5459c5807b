"""Federated methods by name, each in its own file."""

import importlib
import pkgutil

from f2stnet.federated.methods.parts import Method, compose, methods

for _file in pkgutil.iter_modules(__path__):  # every file of this folder files its method under its name
    importlib.import_module(f"{__name__}.{_file.name}")

__all__ = ["Method", "compose", "methods"]

"""Importing all modules of a package, which fills the registries that they declare something in."""

import pkgutil
from importlib import import_module
from types import ModuleType


def import_modules(package: ModuleType) -> list[ModuleType]:
    """Import all direct modules and subpackages of a package. Return them, sorted by name."""
    return [import_module(f"{package.__name__}.{module.name}") for module in pkgutil.iter_modules(package.__path__)]

"""Compiled templates, which all applications and processes of the tests share."""

from jinja2 import FileSystemBytecodeCache

from panel.core.config import ROOT

FOLDER = ROOT / "var" / "cache" / "templates"


def create_template_cache():
    """Return a cache that finds a compiled template by its source."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FileSystemBytecodeCache(str(FOLDER))

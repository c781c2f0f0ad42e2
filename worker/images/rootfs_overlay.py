"""Copies the panel's own files over a tree, with the modes they need in the guest, whatever their modes in the
checkout."""

import shutil
from pathlib import Path


def copy_overlay(overlay: Path, tree: Path):
    """Copy all files. Those that the owner may execute become executable for everybody, all others readable for
    everybody."""
    for source in sorted(overlay.rglob("*")):
        target = tree / source.relative_to(overlay)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.unlink(missing_ok=True)  # it may be a link to a file of this host
            shutil.copyfile(source, target)
            target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)

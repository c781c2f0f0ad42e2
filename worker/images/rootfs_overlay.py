"""Our own files over a tree, with the modes they have in the guest whatever they have in the checkout."""

import shutil
from pathlib import Path


def copy_overlay(overlay: Path, tree: Path):
    """Files that the owner may run are for everybody to run, all others for everybody to read."""
    for source in sorted(overlay.rglob("*")):
        target = tree / source.relative_to(overlay)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.unlink(missing_ok=True)  # it may be a link that means another file on this host
            shutil.copyfile(source, target)
            target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)

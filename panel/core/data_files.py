"""The file modes of the panel's own files: only its user may read them, because they hold secrets and personal data."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UMASK = 0o077
OTHERS_RIGHTS = 0o077
SHARED_FOLDERS = ("hypervisor", "disks", "cache")
"""Folders of a local hypervisor and of image builds. Their modes are not checked: the data directory above them keeps
other users out."""


def list_own_files(data_dir: Path) -> Iterator[Path]:
    """Yield the data directory and the panel's own files and folders in it, without following links."""
    yield data_dir
    for directory, folders, files in os.walk(data_dir):
        if Path(directory) == data_dir:
            folders[:] = [name for name in folders if name not in SHARED_FOLDERS]
        for name in (*folders, *files):
            path = Path(directory, name)
            if not path.is_symlink():
                yield path


def find_exposed(data_dir: Path) -> list[Path]:
    """Return the files and folders that other users have rights to."""
    return [path for path, mode in iter_modes(data_dir) if mode & OTHERS_RIGHTS]


def protect(data_dir: Path) -> None:
    """Set the umask, and remove other users' rights to files of this user (earlier versions left such rights)."""
    os.umask(UMASK)
    for path, mode in iter_modes(data_dir):
        if mode & OTHERS_RIGHTS and path.stat().st_uid == os.geteuid():
            path.chmod(mode & ~OTHERS_RIGHTS)


def iter_modes(data_dir: Path) -> Iterator[tuple[Path, int]]:
    for path in list_own_files(data_dir):
        try:
            yield path, stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:  # deleted in the meantime
            continue


@contextmanager
def temporary_umask(mask: int) -> Iterator[None]:
    """Use another umask inside the block, for files of others. The umask is the process's, so use this only while no
    other thread writes files."""
    previous = os.umask(mask)
    try:
        yield
    finally:
        os.umask(previous)

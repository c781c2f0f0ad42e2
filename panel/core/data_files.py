"""The modes of the panel's own files: only its user may read them, because they hold secrets and personal data."""

import os
import stat
from contextlib import contextmanager
from pathlib import Path

UMASK = 0o077
OTHERS_RIGHTS = 0o077
SHARED_FOLDERS = ("hypervisor", "disks", "cache")
"""Folders of a local hypervisor and of image builds. Their modes are their own business: nobody else passes the data
directory above them."""


def own_files(data_dir: Path):
    """Yield the data directory and everything in it that is the panel's own, without following links."""
    yield data_dir
    for directory, folders, files in os.walk(data_dir):
        if Path(directory) == data_dir:
            folders[:] = [name for name in folders if name not in SHARED_FOLDERS]
        for name in (*folders, *files):
            path = Path(directory, name)
            if not path.is_symlink():
                yield path


def find_exposed(data_dir: Path):
    """Return the files that others than their owner have rights to."""
    return [path for path, mode in iter_modes(data_dir) if mode & OTHERS_RIGHTS]


def protect(data_dir: Path):
    """Take from others what rights they have to files of this user, as earlier versions left them."""
    os.umask(UMASK)
    for path, mode in iter_modes(data_dir):
        if mode & OTHERS_RIGHTS and path.stat().st_uid == os.geteuid():
            path.chmod(mode & ~OTHERS_RIGHTS)


def iter_modes(data_dir):
    for path in own_files(data_dir):
        try:
            yield path, stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:  # a file that ended meanwhile
            continue


@contextmanager
def umask(mask):
    """Use another mask inside the block, for files that are not the panel's own. Only where no other thread works."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)

"""Fetch the packages of the tiny guest and of sandboxes, and the clients of sandboxes, for tests without a network.

Run as `python -m tests.support.prefetch_packages`.
"""

from panel.core.config import ROOT
from tests.support import sandbox_clients
from worker.images import backup_files, packages, sandbox, sandbox_python, tiny, uefi
from worker.images.tiny import boot

if __name__ == "__main__":
    cache = ROOT / "var" / "cache"
    for names in (image.IMAGE_PACKAGES for image in (tiny, sandbox, sandbox_python, backup_files)):
        packages.unpack(names, cache=cache, prepare=boot.index_modules, log=print)
    uefi.fetch_loaders(cache, print)
    sandbox_clients.install(print)

"""Fetch the packages of the tiny guest for tests that run without a network.

Run as `python -m tests.support.prefetch_packages`.
"""

from panel.core.config import ROOT
from worker.images import packages, tiny, uefi
from worker.images.tiny import boot

if __name__ == "__main__":
    cache = ROOT / "var" / "cache"
    packages.unpack(tiny.IMAGE_PACKAGES, cache=cache, prepare=boot.index_modules, log=print)
    uefi.fetch_loaders(cache, print)

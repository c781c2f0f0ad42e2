"""Fetches what the tiny guest is made of, for tests in a network of their own: `python -m tests.support.prefetch_packages`."""

from panel.core.config import ROOT
from worker.images import packages, tiny, uefi
from worker.images.tiny import boot

if __name__ == "__main__":
    cache = ROOT / "var" / "cache"
    packages.unpack(tiny.PACKAGES, cache=cache, prepare=boot.index_modules, log=print)
    uefi.fetch_loaders(cache, print)

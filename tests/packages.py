"""Fetches what the tiny guest is made of, for tests in a network of their own: `python -m tests.packages`."""

from panel.config import ROOT
from worker.guests import packages, tiny, uefi
from worker.guests.tiny import boot

if __name__ == "__main__":
    cache = ROOT / "var" / "cache"
    packages.unpacked(tiny.PACKAGES, cache=cache, prepare=boot.index_modules, log=print)
    uefi.loaders(cache, print)

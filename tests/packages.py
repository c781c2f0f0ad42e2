"""Fetches what the tiny guest is made of, for tests in a network of their own: `python -m tests.packages`."""

from panel.config import ROOT
from worker.guests import packages, tiny
from worker.guests.tiny import boot

if __name__ == "__main__":
    packages.unpacked(tiny.PACKAGES, cache=ROOT / "var" / "cache", prepare=boot.index_modules, log=print)

"""A network of one thread and of the threads it starts, which can break: packets are lost and nobody is told."""

import ctypes
import os
import subprocess

NEWNET = 0x40000000


def enter_namespace():
    """What this thread opens from now on lies in a network of its own. OSError when that is not allowed."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEWNET):
        raise OSError(ctypes.get_errno(), "a network of its own needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def drop_packets(port=None):
    """Nothing arrives any more, or nothing from and to that port."""
    for match in [["--sport", str(port)], ["--dport", str(port)]] if port else [[]]:
        subprocess.run(["iptables", "-A", "INPUT", "-p", "tcp", *match, "-j", "DROP"], check=True)


def is_available():
    return os.getuid() == 0

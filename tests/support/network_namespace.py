"""A network namespace of one thread and the threads it starts, in which packets can be dropped silently."""

import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


def enter_namespace():
    """Move this thread into a new network namespace. Raises OSError when that is not permitted."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a new network namespace needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def drop_packets(port=None):
    """Drop all incoming TCP packets, or those from and to a port."""
    for match in [["--sport", str(port)], ["--dport", str(port)]] if port else [[]]:
        subprocess.run(["iptables", "-A", "INPUT", "-p", "tcp", *match, "-j", "DROP"], check=True)


def is_available():
    return os.getuid() == 0

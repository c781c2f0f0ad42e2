"""The identity of a sandbox: what makes a machine that was started from a snapshot different from all others.

The host passes it as one JSON document through the channel (`identity_stream`), or to `python3 -m
sandbox_guest.identity` through the guest agent. Either runs as root. There is no route for it, so programs within the
sandbox cannot change it through the daemon.
"""

import argparse
import base64
import contextlib
import fcntl
import json
import os
import random
import re
import socket
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .network import build_resolver_file, configure_interface, parse_network

IDENTITY_PATH = "/run/sandbox/identity.json"
RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?")
MACHINE_ID = re.compile(r"[0-9a-f]{32}")
HOSTS_ADDRESS = "127.0.1.1"
"""The address of the machine's own name in /etc/hosts, as Debian writes it."""
MIN_ENTROPY_BYTES, MAX_ENTROPY_BYTES = 32, 4096
"""The kernel's generator needs 256 bits."""


@dataclass(frozen=True)
class Identity:
    """What the daemon has to know of its sandbox."""

    access_token: str
    env: dict[str, str] = field(default_factory=dict)
    default_user: str = "user"
    default_workdir: str = ""


class IdentityFile:
    """The identity that the daemon uses, read again whenever the file has changed."""

    def __init__(self, path: str = IDENTITY_PATH):
        self.path = path
        self.version: tuple[int, ...] | None = None
        self.identity: Identity | None = None

    def find(self) -> Identity | None:
        """Return the current identity, or None when there is none yet."""
        try:
            status = os.stat(self.path)
        except OSError:
            self.version = self.identity = None
            return None
        version = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if version != self.version:
            self.identity = read_identity(self.path)
            self.version = version
            # Every machine of one snapshot has the same state of the generator.
            random.seed(os.urandom(32))
        return self.identity


def read_identity(path: str) -> Identity | None:
    """Return the identity of a file, or None when it cannot be read."""
    try:
        return parse_identity(json.loads(Path(path).read_text()))
    except (OSError, ValueError):
        return None


def parse_identity(document: Any) -> Identity:
    """Return the identity of a JSON document; raises ValueError when a field is wrong."""
    if not isinstance(document, dict):
        raise ValueError("the document is not an object")
    texts = {name: document.get(name) or "" for name in ("access_token", "default_user", "default_workdir")}
    if not texts["access_token"]:  # without one the daemon would have to serve everybody or nobody
        raise ValueError("access_token is missing")
    env = document.get("env") or {}
    if not isinstance(env, dict):
        raise ValueError("env is not an object")
    for name, value in {**texts, **env}.items():
        if not isinstance(value, str) or "\0" in value + name:
            raise ValueError(f"{name} is not a valid text")
    return Identity(texts["access_token"], env, texts["default_user"] or "user", texts["default_workdir"])


def add_entropy(entropy: bytes, device: str = "/dev/urandom") -> None:
    """Mix the bytes into the kernel's random generator, credit them and reseed it."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, entropy)
        fcntl.ioctl(descriptor, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        fcntl.ioctl(descriptor, RNDRESEEDCRNG)
    finally:
        os.close(descriptor)


def write_file(path: Path, text: str, mode: int) -> None:
    """Write a file atomically, so that a reader finds either the old or the new content."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w") as file:
            file.write(text)
            os.fchmod(descriptor, mode)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_system_file(path: Path, text: str) -> None:
    """Write a file of /etc. A file that is mounted cannot be replaced and is written in place."""
    try:
        write_file(path, text, 0o644)
    except OSError:
        path.write_text(text)


def replace_host_name(hosts: str, name: str) -> str:
    """Return the text of /etc/hosts with the new name of the machine."""
    lines = [line for line in hosts.splitlines() if line.split()[:1] != [HOSTS_ADDRESS]]
    return "\n".join([*lines, f"{HOSTS_ADDRESS}\t{name}", ""])


def set_host_name(name: str, root: Path, *, in_kernel: bool) -> None:
    if not HOST_NAME.fullmatch(name):
        raise ValueError("host_name is not valid")
    if in_kernel:
        socket.sethostname(name)
    write_system_file(root / "etc/hostname", f"{name}\n")
    hosts = root / "etc/hosts"
    text = hosts.read_text() if hosts.exists() else "127.0.0.1\tlocalhost\n"
    write_system_file(hosts, replace_host_name(text, name))


def set_machine_id(machine_id: str, root: Path) -> None:
    if not MACHINE_ID.fullmatch(machine_id):
        raise ValueError("machine_id is not valid")
    write_system_file(root / "etc/machine-id", f"{machine_id}\n")
    copy = root / "var/lib/dbus/machine-id"
    if copy.exists() and not copy.is_symlink():
        write_system_file(copy, f"{machine_id}\n")


def apply_identity(document: dict[str, Any], root: Path = Path("/"), *, in_kernel: bool = True) -> None:
    """Give this machine its identity. The daemon accepts requests once the last file is written.

    `in_kernel=False` leaves the random generator, the clock, the host name and the interface of the kernel as they are.
    """
    parse_identity(document)
    network = parse_network(document.get("network"))
    entropy = base64.b64decode(document.get("entropy") or "", validate=True)
    if entropy and not MIN_ENTROPY_BYTES <= len(entropy) <= MAX_ENTROPY_BYTES:
        raise ValueError("entropy has a wrong size")
    seconds = document.get("time")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0):
        raise ValueError("time is not valid")
    if in_kernel and entropy:
        add_entropy(entropy)
    if in_kernel and seconds is not None:
        time.clock_settime(time.CLOCK_REALTIME, seconds)
    if document.get("host_name"):
        set_host_name(document["host_name"], root, in_kernel=in_kernel)
    if document.get("machine_id"):
        set_machine_id(document["machine_id"], root)
    if network:
        if in_kernel:
            configure_interface(network)
        write_system_file(root / "etc/resolv.conf", build_resolver_file(network))
    path = root / IDENTITY_PATH.lstrip("/")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    names = ("access_token", "env", "default_user", "default_workdir")
    write_file(path, json.dumps({name: document[name] for name in names if name in document}), 0o600)


def main() -> None:
    """Read the document from standard input and apply it."""
    parser = argparse.ArgumentParser(prog="sandbox_guest.identity", description=main.__doc__)
    parser.add_argument("--root", type=Path, help="write the files below this folder and leave the kernel as it is")
    options = parser.parse_args()
    try:
        document = json.load(sys.stdin)
        if not isinstance(document, dict):
            raise ValueError("the document is not an object")
        apply_identity(document, options.root or Path("/"), in_kernel=options.root is None)
    except (OSError, ValueError, TypeError) as error:
        sys.exit(f"The identity could not be applied: {error}")


if __name__ == "__main__":
    main()

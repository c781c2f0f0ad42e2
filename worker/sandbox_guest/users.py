"""Users of the sandbox, and the paths as they write them."""

import base64
import binascii
import grp
import os
import pwd
from dataclasses import dataclass
from functools import cached_property

from .errors import RpcError

PATH_IN_ENVIRONMENT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The variable PATH of processes when the daemon itself has none."""


@dataclass(frozen=True)
class User:
    """A user of the sandbox, as whom a call acts."""

    name: str
    uid: int
    gid: int
    home: str

    @cached_property
    def groups(self) -> list[int]:
        return os.getgrouplist(self.name, self.gid)

    def resolve_path(self, path: str, empty: str = "") -> str:
        """Return the absolute path. Relative ones start at the home folder; an empty one stands for `empty`."""
        if not path:
            path = empty or self.home
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~"):
            raise RpcError("invalid_argument", f"path '{path}': only your own home folder can be written as ~")
        return "/" + os.path.normpath(os.path.join(self.home, path)).lstrip("/")

    def make_environment(self) -> dict[str, str]:
        path = os.environ.get("PATH") or PATH_IN_ENVIRONMENT
        return {"PATH": path, "HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    def take_ownership(self, path: str) -> None:
        """Make the user the owner of a path. Only root can do so."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def get_user(name: str) -> User:
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError) as error:
        raise RpcError("unauthenticated", f"user '{name}' does not exist") from error
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def parse_basic_user(authorization: str) -> str:
    """Return the user name of an `Authorization: Basic` header, or an empty text."""
    scheme, _separator, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError) as error:
        raise RpcError("unauthenticated", "the Authorization header is not valid") from error


def get_owner_name(uid: int) -> str:
    """Return the name of a user, or the number when there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def get_group_name(gid: int) -> str:
    """Return the name of a group, or the number when there is none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def make_folders(path: str, user: User) -> None:
    """Create a folder and its parents where they are absent. The new ones belong to the user."""
    absent = []
    while not os.path.lexists(path):
        absent.append(path)
        path = os.path.dirname(path)
    for folder in reversed(absent):
        try:
            os.mkdir(folder, 0o755)
        except FileExistsError:  # another call created it meanwhile
            continue
        os.chmod(folder, 0o755)
        user.take_ownership(folder)

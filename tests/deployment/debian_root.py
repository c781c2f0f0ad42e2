"""Debian roots on this machine: make one with mmdebstrap, and run programs in it. Needs root."""

import os
import shutil
import subprocess
from pathlib import Path

SUITE = "bookworm"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
SETTINGS = {
    "HOME": "/root",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
REGISTRY_SETTINGS = {"PIP_CERT": CERTIFICATES, "SSL_CERT_FILE": CERTIFICATES, "NODE_EXTRA_CA_CERTS": CERTIFICATES}
REGISTRY_SETTINGS |= {
    name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL") if name in os.environ
}
"""How programs in a root reach the package registries, as this machine does."""

ENTER = """
root=$1 user=$2; shift 2
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec="$user" "$root" /usr/bin/env --ignore-environment "$@"
"""


def make_root(root: Path, packages=(), mmdebstrap_options=()):
    """Install a minimal Debian with these packages."""
    names = ",".join(["ca-certificates", *packages])
    quick = "--dpkgopt=force-unsafe-io"
    options = ["--quiet", "--variant=minbase", quick, f"--include={names}", *mmdebstrap_options]
    subprocess.run(["mmdebstrap", *options, SUITE, root], check=True)
    no_services = root / "usr/sbin/policy-rc.d"  # nothing starts services in a root that was not booted
    no_services.write_text("#!/bin/sh\nexit 101\n")
    no_services.chmod(0o755)
    for name in ("/etc/resolv.conf", "/etc/hosts", CERTIFICATES):  # a registry's proxy may have its own certificate
        shutil.copy(name, f"{root}{name}")


def export_checkout(directory: Path):
    """Copy what is committed in this checkout."""
    directory.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["git", "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", directory], stdin=archive.stdout, check=True)
    if archive.returncode:
        raise subprocess.CalledProcessError(archive.returncode, archive.args)


def enter(root: Path, command, *, user="root", directory="/", settings=()):
    """Return the command line that runs a command as the first process of namespaces of its own in the root."""
    variables = [f"{name}={value}" for name, value in {**SETTINGS, **dict(settings)}.items()]
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    return [
        *(*namespaces, "bash", "-ec", ENTER, "enter", str(root), user),
        *(f"--chdir={directory}", *variables, *command),
    ]


def run(root: Path, script: str, **options):
    """Run a shell script in the root, with access to the package registries."""
    settings = {**REGISTRY_SETTINGS, "DEBIAN_FRONTEND": "noninteractive", **dict(options.pop("settings", ()))}
    command = enter(root, ["sh", "-ec", script], settings=settings, **options)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)

"""Debian roots on this machine: make one with mmdebstrap, and run programs in it. Needs root."""

import os
import shutil
import subprocess
from pathlib import Path

DEBIAN_SUITE = "bookworm"
CERTIFICATE_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = {
    "HOME": "/root",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
REGISTRY_SETTINGS = {
    "PIP_CERT": CERTIFICATE_BUNDLE,
    "SSL_CERT_FILE": CERTIFICATE_BUNDLE,
    "NODE_EXTRA_CA_CERTS": CERTIFICATE_BUNDLE,
}
REGISTRY_SETTINGS |= {
    name: os.environ[name] for name in ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL") if name in os.environ
}
"""Settings with which programs in the root use the package registries of this machine."""

ENTER_ROOT_SCRIPT = """
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
    subprocess.run(["mmdebstrap", *options, DEBIAN_SUITE, root], check=True)
    policy_script = root / "usr/sbin/policy-rc.d"  # prevents packages from starting services in the root
    policy_script.write_text("#!/bin/sh\nexit 101\n")
    policy_script.chmod(0o755)
    # A proxy of the registries may have its own certificate.
    for name in ("/etc/resolv.conf", "/etc/hosts", CERTIFICATE_BUNDLE):
        shutil.copy(name, f"{root}{name}")


def export_checkout(directory: Path):
    """Copy the committed files of this checkout."""
    directory.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["git", "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", directory], stdin=archive.stdout, check=True)
    if archive.returncode:
        raise subprocess.CalledProcessError(archive.returncode, archive.args)


def make_command_line(root: Path, command, *, user="root", directory="/", settings=()):
    """Return the command line that runs a command in the root, in new mount and PID namespaces."""
    variables = [f"{name}={value}" for name, value in {**ENVIRONMENT, **dict(settings)}.items()]
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    return [
        *(*namespaces, "bash", "-ec", ENTER_ROOT_SCRIPT, "enter", str(root), user),
        *(f"--chdir={directory}", *variables, *command),
    ]


def run(root: Path, script: str, **options):
    """Run a shell script in the root, with access to the package registries."""
    settings = {**REGISTRY_SETTINGS, "DEBIAN_FRONTEND": "noninteractive", **dict(options.pop("settings", ()))}
    command = make_command_line(root, ["sh", "-ec", script], settings=settings, **options)
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)

"""An archive of Debian's packages, and images of containers, for guests that reach nothing but this machine."""

import functools
import hashlib
import io
import shlex
import shutil
import subprocess
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from panel.core import clock
from worker.images import commands, packages

DOCKER_PACKAGES = ["docker.io", "docker-compose", "apparmor", "iptables", "ca-certificates"]
ARCHIVES = "/var/cache/apt/archives"
LARGE_PACKAGE_BYTES = 5 * 1024**2


def build_archive(package_names, *, cache):
    """Return a directory that apt can use as an archive: these packages and their dependencies.

    It is cached for a week, like the packages of images."""
    digest = hashlib.sha256(" ".join(package_names).encode()).hexdigest()[:12]
    archive = cache / f"{packages.DEBIAN_SUITE}-archive-zstd-{digest}"
    with packages.lock_cache(cache, ".lock-archive"):
        if archive.exists() and clock.now().timestamp() - archive.stat().st_mtime < packages.CACHE_MAX_AGE_SECONDS:
            return archive
        with TemporaryDirectory(dir=cache, prefix=".archive-") as work_dir:
            new_archive = Path(work_dir, "packages")
            new_archive.mkdir()
            copy_hook = f"--extract-hook=sync-out {ARCHIVES} {shlex.quote(str(new_archive))}"
            options = [
                "--quiet",
                "--variant=extract",
                f"--include={','.join(package_names)}",
                "--skip=download/empty",
                copy_hook,
            ]
            commands.run("mmdebstrap", *options, packages.DEBIAN_SUITE, Path(work_dir, "tree"))
            recompress_large_packages(new_archive)
            write_index(new_archive)
            shutil.rmtree(archive, ignore_errors=True)
            return new_archive.replace(archive)


def recompress_large_packages(directory):
    """Compress them with zstd, because an emulated processor takes a minute to unpack Debian's own xz."""
    for path in directory.glob("*.deb"):
        if path.stat().st_size > LARGE_PACKAGE_BYTES:
            with TemporaryDirectory(dir=directory.parent) as tree:
                commands.run("dpkg-deb", "--raw-extract", path, tree)
                commands.run("dpkg-deb", "-Zzstd", "-z1", "--build", tree, path)


def write_index(directory):
    """Write the index that apt reads."""
    entries = []
    for path in sorted(directory.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", path], check=True, capture_output=True, text=True).stdout.strip()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(f"{control}\nFilename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
    (directory / "Packages").write_text("\n".join(entries))


def build_root_file_system(busybox, out):
    """Write the root file system of a container image: one program with links for its names."""
    with tarfile.open(out, "w") as tar:
        program = tar.gettarinfo(busybox, "bin/busybox")
        with busybox.open("rb") as content:
            tar.addfile(program, content)
        for name in ("sh", "httpd", "sleep", "echo", "cat", "env", "mkdir"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        tar.addfile(tarfile.TarInfo("etc/keep"), io.BytesIO())


class Server:
    """Serves a directory's files by plain HTTP."""

    def __init__(self, host, directory):
        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer((host, 0), functools.partial(Handler, directory=str(directory)))
        self.directory, self.url = directory, f"http://{host}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

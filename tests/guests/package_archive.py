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


def build_archive(wanted, *, cache):
    """A directory that apt takes for an archive, with these packages and all that they need. It is kept in the cache,
    for a week as what images are built from."""
    kept = cache / f"{packages.SUITE}-archive-zstd-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:12]}"
    with packages.lock_cache(cache, ".lock-archive"):
        if kept.exists() and clock.now().timestamp() - kept.stat().st_mtime < packages.CACHE_MAX_AGE_SECONDS:
            return kept
        with TemporaryDirectory(dir=cache, prefix=".archive-") as work:
            fresh = Path(work, "packages")
            fresh.mkdir()
            take = f"--extract-hook=sync-out {ARCHIVES} {shlex.quote(str(fresh))}"
            words = ["--quiet", "--variant=extract", f"--include={','.join(wanted)}", "--skip=download/empty", take]
            commands.run("mmdebstrap", *words, packages.SUITE, Path(work, "tree"))
            recompress_large_packages(fresh)
            write_index(fresh)
            shutil.rmtree(kept, ignore_errors=True)
            return fresh.replace(kept)


def recompress_large_packages(directory):
    """Pack them with zstd, because an emulated processor takes a minute to unpack Debian's own xz."""
    for path in directory.glob("*.deb"):
        if path.stat().st_size > LARGE_PACKAGE_BYTES:
            with TemporaryDirectory(dir=directory.parent) as tree:
                commands.run("dpkg-deb", "--raw-extract", path, tree)
                commands.run("dpkg-deb", "-Zzstd", "-z1", "--build", tree, path)


def write_index(directory):
    """Writes what apt asks an archive for."""
    entries = []
    for path in sorted(directory.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", path], check=True, capture_output=True, text=True).stdout.strip()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(f"{control}\nFilename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
    (directory / "Packages").write_text("\n".join(entries))


def build_root_file_system(busybox, out):
    """What an image of containers is made from: one program under the names that it has."""
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

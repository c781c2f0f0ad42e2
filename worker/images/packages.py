"""Debian's packages, cached between builds."""

import fcntl
import hashlib
import os
import shlex
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from panel.core import clock
from worker.images.commands import BuildFailed, run

DEBIAN_SUITE = "bookworm"
CACHE_MAX_AGE_SECONDS = 7 * 24 * 3600
UNFINISHED_PREFIX = ".fetching-"
REQUIRED_PROGRAMS = {"mmdebstrap": "mmdebstrap"}


def unpack(packages: list[str], *, cache: Path, prepare: Callable[[Path], None], log) -> Path:
    """Return a directory with these packages and their dependencies, unpacked but not configured. `prepare` is called
    with it once, when it is new.

    The directory is cached and fetched again after a week, so that images get security updates. When that fails (no
    network) the cached one is used; without one, `BuildFailed` is raised. Leftovers of interrupted builds are deleted.
    """
    cached = cache / f"{DEBIAN_SUITE}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    with lock_cache(cache, ".lock"):
        for leftover in cache.glob(f"{UNFINISHED_PREFIX}*"):
            shutil.rmtree(leftover)
        if cached.exists() and clock.now().timestamp() - cached.stat().st_mtime < CACHE_MAX_AGE_SECONDS:
            return cached
        log(f"Fetching {len(packages)} packages of Debian {DEBIAN_SUITE} and what they depend on …")
        new_directory = Path(mkdtemp(dir=cache, prefix=UNFINISHED_PREFIX))
        try:
            run(
                "mmdebstrap",
                "--quiet",
                "--variant=extract",
                f"--include={','.join(packages)}",
                DEBIAN_SUITE,
                new_directory,
            )
            prepare(new_directory)
        except BuildFailed as error:
            shutil.rmtree(new_directory)
            if not cached.exists():
                raise
            log(f"Debian's packages could not be fetched; those of an earlier build are used. {error}")
            return cached
        os.utime(new_directory)
        shutil.rmtree(cached, ignore_errors=True)
        return new_directory.replace(cached)


@contextmanager
def lock_cache(cache: Path, name: str):
    """Lock the cache with that file: one build at a time uses it."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(packages: list[str], tree: Path, *, cache: Path, overlay: Path, finish: Path, dpkg: list[str]):
    """Install a system of these packages in `tree`. `overlay` is copied over it before they are configured, and the
    program `finish` runs afterwards with the tree as its argument. Downloaded packages are cached, so the next build
    downloads only new ones."""
    cached = cache / f"{DEBIAN_SUITE}-debs"
    archives = "/var/cache/apt/archives"
    with lock_cache(cache, ".lock-debs"):
        cached.mkdir(exist_ok=True)
        run(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join(packages)}",
            *[f"--dpkgopt={option}" for option in dpkg],
            "--skip=download/empty,essential/unlink",
            f'--setup-hook=mkdir -p "$1"{archives}',
            f"--setup-hook=sync-in {shlex.quote(str(cached))} {archives}",
            f'--essential-hook=cp -a {shlex.quote(str(overlay))}/. "$1"',
            f"--customize-hook={finish}",
            f"--customize-hook=sync-out {archives} {shlex.quote(str(cached))}",
            DEBIAN_SUITE,
            tree,
        )

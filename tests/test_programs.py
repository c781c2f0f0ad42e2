"""Programs that tests execute are declared as Debian packages (finding "A fresh machine")."""

import subprocess

import pytest

from tests.support import programs


def test_declared_and_essential_programs_pass():
    assert programs.undeclared_error("/usr/bin/qemu-img") is None
    assert programs.undeclared_error("/bin/mount") is None
    assert programs.undeclared_error("/bin/sh") is None


def test_undeclared_program_error_names_its_package(monkeypatch):
    monkeypatch.setattr(programs, "declared_packages", lambda: {"qemu-utils"})
    assert "iputils-ping" in programs.undeclared_error.__wrapped__("/usr/bin/ping")


def test_executing_an_undeclared_program_fails_the_test(monkeypatch):
    monkeypatch.setattr(programs, "undeclared_error", lambda path: f"{path} is not declared.")
    with pytest.raises(AssertionError, match="is not declared"):
        subprocess.run(["sh", "-c", "true"])

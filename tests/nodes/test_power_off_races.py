"""Changes of a machine whose QEMU ends while they are made ("End of file from qemu monitor")."""

import pytest

libvirt = pytest.importorskip("libvirt")

from worker.nodes.libvirt import errors  # noqa: E402


class Domain:
    """A machine that is on for that many calls of `isActive`."""

    def __init__(self, calls):
        self.calls = calls

    def isActive(self):
        self.calls -= 1
        return self.calls >= 0


def build_failing_change(times):
    """Return a change that fails that many times, and the list of its attempts."""
    attempts = []

    def change():
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise libvirt.libvirtError("End of file from qemu monitor")
        return "done"

    return change, attempts


@pytest.mark.parametrize("calls", [1, 3])
def test_change_is_repeated_when_machine_turned_off(calls):
    change, attempts = build_failing_change(1)
    assert errors.repeat_when_off(Domain(calls), change) == "done"
    assert attempts == [1, 2]


@pytest.mark.parametrize("calls", [0, 10**9])
def test_other_errors_are_raised(monkeypatch, calls):
    """Errors of a machine that was off before, and of one that stays on."""
    monkeypatch.setattr(errors, "POWER_OFF_NOTICED_SECONDS", 0.05)
    change, attempts = build_failing_change(1)
    with pytest.raises(libvirt.libvirtError):
        errors.repeat_when_off(Domain(calls), change)
    assert attempts == [1]


def test_second_error_is_raised():
    change, attempts = build_failing_change(2)
    with pytest.raises(libvirt.libvirtError):
        errors.repeat_when_off(Domain(1), change)
    assert attempts == [1, 2]

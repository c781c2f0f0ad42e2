"""Changes of a machine whose QEMU ends while they are made (acceptance C2: "End of file from qemu monitor")."""

import pytest

libvirt = pytest.importorskip("libvirt")

from worker.nodes.libvirt import errors  # noqa: E402


class Domain:
    """On until it was looked at so many times."""

    def __init__(self, looks):
        self.looks = looks

    def isActive(self):
        self.looks -= 1
        return self.looks >= 0


def fail_times(times):
    """A change that fails so many times, and how often it was made."""
    made = []

    def change():
        made.append(len(made) + 1)
        if len(made) <= times:
            raise libvirt.libvirtError("End of file from qemu monitor")
        return "done"

    return change, made


@pytest.mark.parametrize("looks", [1, 3])
def test_change_is_repeated_when_machine_turned_off(looks):
    change, made = fail_times(1)
    assert errors.repeat_when_off(Domain(looks), change) == "done"
    assert made == [1, 2]


@pytest.mark.parametrize("looks", [0, 10**9])
def test_other_errors_are_raised(monkeypatch, looks):
    """Of a machine that was off before, and of one that stays on."""
    monkeypatch.setattr(errors, "POWER_OFF_NOTICED_SECONDS", 0.05)
    change, made = fail_times(1)
    with pytest.raises(libvirt.libvirtError):
        errors.repeat_when_off(Domain(looks), change)
    assert made == [1]


def test_second_error_is_raised():
    change, made = fail_times(2)
    with pytest.raises(libvirt.libvirtError):
        errors.repeat_when_off(Domain(1), change)
    assert made == [1, 2]

"""Whether the kernel hands bridged packets to its filter, without which no firewall would hold."""

import pytest

from worker.nodes.libvirt import bridge_filter


@pytest.fixture
def kernel(tmp_path):
    for name in bridge_filter.SETTING_NAMES:
        (tmp_path / name).write_text("0\n")
    return tmp_path


def test_bridge_filter_is_enabled_in_the_kernel(kernel):
    for _ in range(2):
        assert bridge_filter.enable_bridge_filter(kernel)
        assert [(kernel / name).read_text().strip() for name in bridge_filter.SETTING_NAMES] == ["1", "1"]


def test_bridge_filter_is_reported_as_unavailable(tmp_path, kernel, monkeypatch):
    monkeypatch.setattr(bridge_filter.shutil, "which", lambda *_, **__: None)
    assert not bridge_filter.enable_bridge_filter(tmp_path / "nothing")
    (kernel / bridge_filter.SETTING_NAMES[1]).unlink()
    assert not bridge_filter.enable_bridge_filter(kernel)

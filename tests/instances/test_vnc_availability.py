"""Whether a VNC console can be opened (GET /api/instance/{id}/vnc)."""

import pytest

from panel.core.db import session
from panel.models import ConsoleSession


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"power": "on", "deployed": True}, None),
        ({"power": "off", "deployed": True}, "not_running"),
        ({"power": "on", "deployed": True, "enable_vnc": False}, "vnc_disabled"),
        ({"power": "on", "deployed": True, "suspended_reason": "admin"}, "suspended"),
    ],
)
def test_vnc_state_names_console_session_error(api_as, cast, facts, reason):
    instance = cast.instance()
    for name, value in facts.items():
        setattr(instance, name, value)
    session.commit()
    answer = api_as("owner", "GET", f"/api/instance/{instance.id}/vnc")
    assert answer.status_code == 200
    assert answer.json["data"] == {
        "enabled": instance.enable_vnc,
        "keymap": "en-us",
        "available": reason is None,
        "reason": reason,
    }
    assert session.query(ConsoleSession).count() == 0, "nothing is created"


def test_vnc_state_requires_permission(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/vnc"
    assert api_as("outsider", "GET", path).status_code == 404
    assert api_as("viewer", "GET", path).status_code == 403

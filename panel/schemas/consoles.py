"""Console sessions in the API."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, Time, describe
from panel.schemas.catalog import EXAMPLE_ID


class ScreenIn(In):
    expires_in = Int(
        10,
        600,
        load_default=60,
        **describe("Seconds until the session expires if no console was opened with it.", 60),
    )


class ScreenOut(Out):
    url = fields.String(
        **describe("WebSocket URL. It can be used for one connection.", "wss://panel.example.com/vnc/?session=kX2v…")
    )
    console_url = fields.String(
        **describe("Console page. Opening it does not use up the session.", "https://panel.example.com/console/kX2v…")
    )
    password = fields.String(**describe("VNC password of this session.", "Jq7-w2Xa"))
    expires_at = Time(**describe("Expiry of the session.", "2026-11-21T10:01:00Z"))


class VncOut(Out):
    enabled = fields.Boolean(**describe("Whether VNC is enabled in the instance's settings.", True))
    keymap = fields.String(**describe("Keyboard layout of the VNC console.", "en-us"))
    available = fields.Boolean(**describe("Whether a console session can be created at the moment.", True))
    reason = fields.String(
        allow_none=True,
        **describe("Reason if not: `suspended`, `not_running` or `vnc_disabled`; otherwise null.", None),
    )


class ShellOut(Out):
    token = fields.String(**describe("Token for one SSH session. It works once.", "kX2v…"))
    session_id = fields.String(**describe("Session id.", EXAMPLE_ID))
    task_id = fields.String(**describe("The completed task that installed the temporary key in the guest.", EXAMPLE_ID))
    ws_url = fields.String(
        **describe("WebSocket URL, with the token in its path.", "wss://panel.example.com/ssh/kX2v…")
    )
    expires_in = fields.Integer(**describe("Seconds until the token expires.", 900))


class ShellState(Out):
    """A shell session, without its secret."""

    session_id = fields.String(**describe("Session id.", EXAMPLE_ID))
    state = fields.String(**describe("`fresh` (unused) or `open`.", "open"))
    opened_at = Time(allow_none=True, **describe("When it was opened.", "2026-11-21T10:00:05Z"))
    expires_at = Time(**describe("Expiry while it is unused.", "2026-11-21T10:15:00Z"))
    by = fields.String(**describe("Creator of the session.", "olga@example.com"))


class ShellSession(Out):
    active = fields.Boolean(**describe("Whether there is a session.", True))
    session = fields.Nested(ShellState, allow_none=True, **describe("The newest session; null if there is none."))

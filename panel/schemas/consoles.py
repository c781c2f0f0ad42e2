"""Console sessions in the API."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, Time, describe
from panel.schemas.catalog import EXAMPLE_ID


class ScreenIn(In):
    expires_in = Int(
        10,
        600,
        load_default=60,
        **describe("Seconds until the session is void, unless a screen was opened with it.", 60),
    )


class ScreenOut(Out):
    url = fields.String(
        **describe(
            "The WebSocket. The first connection spends the session.", "wss://panel.example.com/vnc/?session=kX2v…"
        )
    )
    console_url = fields.String(
        **describe("The page with the screen; opening it spends nothing.", "https://panel.example.com/console/kX2v…")
    )
    password = fields.String(**describe("What a VNC viewer is asked for, in this session alone.", "Jq7-w2Xa"))
    expires_at = Time(**describe("Until when it can be used.", "2026-11-21T10:01:00Z"))


class VncOut(Out):
    enabled = fields.Boolean(**describe("Whether VNC is on in the instance's settings.", True))
    keymap = fields.String(**describe("Keyboard of the screen.", "en-us"))
    available = fields.Boolean(**describe("Whether a session can be minted now.", True))
    reason = fields.String(
        allow_none=True,
        **describe("Why not: `suspended`, `not_running` or `vnc_disabled`; null when it can.", None),
    )


class ShellOut(Out):
    token = fields.String(**describe("Opens one shell, once.", "kX2v…"))
    session_id = fields.String(**describe("The session, as it is listed.", EXAMPLE_ID))
    task_id = fields.String(**describe("The task that put a key into the guest. It has ended.", EXAMPLE_ID))
    ws_url = fields.String(
        **describe("The WebSocket, with the token in its path.", "wss://panel.example.com/ssh/kX2v…")
    )
    expires_in = fields.Integer(**describe("Seconds until the token is void.", 900))


class ShellState(Out):
    """A shell session, without its secret."""

    session_id = fields.String(**describe("The session.", EXAMPLE_ID))
    state = fields.String(**describe("`fresh` (not used yet) or `open`.", "open"))
    opened_at = Time(allow_none=True, **describe("Since when it is open.", "2026-11-21T10:00:05Z"))
    expires_at = Time(**describe("Until when it can be used, if it is fresh.", "2026-11-21T10:15:00Z"))
    by = fields.String(**describe("Who asked for it.", "olga@example.com"))


class ShellSession(Out):
    active = fields.Boolean(**describe("Whether there is one.", True))
    session = fields.Nested(ShellState, allow_none=True, **describe("The newest one; null when there is none."))

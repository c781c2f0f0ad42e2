"""Console sessions in the API."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, Time, about
from panel.schemas.catalog import EXAMPLE_ID


class ScreenIn(In):
    expires_in = Int(
        10, 600, load_default=60, **about("Seconds until the session is void, unless a screen was opened with it.", 60)
    )


class ScreenOut(Out):
    url = fields.String(
        **about("The WebSocket. The first connection spends the session.", "wss://panel.example.com/vnc/?session=kX2v…")
    )
    console_url = fields.String(
        **about("The page with the screen; opening it spends nothing.", "https://panel.example.com/console/kX2v…")
    )
    password = fields.String(**about("What a VNC viewer is asked for, in this session alone.", "Jq7-w2Xa"))
    expires_at = Time(**about("Until when it can be used.", "2026-11-21T10:01:00Z"))


class VncOut(Out):
    enabled = fields.Boolean(**about("Whether VNC is on in the instance's settings.", True))
    keymap = fields.String(**about("Keyboard of the screen.", "en-us"))
    available = fields.Boolean(**about("Whether a session can be minted now.", True))
    reason = fields.String(
        allow_none=True,
        **about("Why not: `suspended`, `not_running` or `vnc_disabled`; null when it can.", None),
    )


class ShellOut(Out):
    token = fields.String(**about("Opens one shell, once.", "kX2v…"))
    session_id = fields.String(**about("The session, as it is listed.", EXAMPLE_ID))
    task_id = fields.String(**about("The task that put a key into the guest. It has ended.", EXAMPLE_ID))
    ws_url = fields.String(**about("The WebSocket, with the token in its path.", "wss://panel.example.com/ssh/kX2v…"))
    expires_in = fields.Integer(**about("Seconds until the token is void.", 900))


class ShellState(Out):
    """A shell session, without its secret."""

    session_id = fields.String(**about("The session.", EXAMPLE_ID))
    state = fields.String(**about("`fresh` (not used yet) or `open`.", "open"))
    opened_at = Time(allow_none=True, **about("Since when it is open.", "2026-11-21T10:00:05Z"))
    expires_at = Time(**about("Until when it can be used, if it is fresh.", "2026-11-21T10:15:00Z"))
    by = fields.String(**about("Who asked for it.", "olga@example.com"))


class ShellSession(Out):
    active = fields.Boolean(**about("Whether there is one.", True))
    session = fields.Nested(ShellState, allow_none=True, **about("The newest one; null when there is none."))

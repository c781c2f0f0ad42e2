"""Browser sessions of accounts, for operators."""

from api import kit
from panel.schemas.sessions import AdminSessionOut, SessionQuery
from panel.services import sessions

admin = kit.Admin("session", __name__, description="Browser sessions")


@admin.get(
    "/sessions",
    op="list",
    can="admin:accounts:read",
    query=SessionQuery,
    out=kit.build_admin_page_schema(AdminSessionOut),
)
def listing(query):
    """List active browser sessions, newest first.

    Contains address and browser of each session, including impersonations by operators.
    """
    return kit.paginate(sessions.list_all(**query))


@admin.delete("/session/<session_id>", op="delete", can="admin:accounts:write")
def delete(session_id):
    """Revoke a browser session.

    Takes effect immediately. API tokens stay valid. Returns 404 for a session that has ended.
    """
    sessions.revoke_session(session_id)
    kit.set_message("Session revoked.")

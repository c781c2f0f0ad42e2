"""Browser sessions of accounts, for operators."""

from api import kit
from panel.schemas.sessions import AdminSessionOut, SessionQuery
from panel.services import sessions

admin = kit.Admin("session", __name__, description="Signed-in browsers")


@admin.get(
    "/sessions",
    op="list",
    can="admin:accounts:read",
    query=SessionQuery,
    out=kit.build_admin_page_schema(AdminSessionOut),
)
def listing(query):
    """List the browsers that are signed in, newest first; those in which an operator is somebody else too.

    With the address and the program of each.
    """
    return kit.paginate(sessions.list_all(**query))


@admin.delete("/session/<session_id>", op="delete", can="admin:accounts:write")
def delete(session_id):
    """Sign a browser out.

    Tokens stay. It counts at once. 404 for a session that has ended.
    """
    sessions.revoke_session(session_id)
    kit.set_message("The session is ended.")

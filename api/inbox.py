"""Notifications in the inbox of the token's user."""

from api import kit
from panel.auth import permissions
from panel.schemas.inbox import (
    InboxMessageOut,
    InboxPreferenceOut,
    InboxPreferencesPatch,
    InboxQuery,
    InboxRead,
)
from panel.services import inbox

user = kit.User("notification", __name__, description="Notifications in the inbox")
MESSAGES = kit.build_wrapped_schema("notifications", kit.build_page_schema(InboxMessageOut))
PREFERENCES = kit.build_wrapped_schema("preferences", InboxPreferenceOut(many=True))


@user.get("/notifications", op="list", can=permissions.ANY_USER, query=InboxQuery, out=MESSAGES)
def listing(query):
    """List the notifications in the inbox, newest first.

    They are those of the token's user: about their own security, and about resources that they may see. They are
    stored for 90 days, at most 500 for each user.
    """
    return {"message": None, "notifications": kit.paginate(inbox.listing(kit.get_current_access(), **query))}


@user.post("/notifications/read", op="read", can=permissions.PERSONAL, body=InboxRead, out=kit.build_result_schema())
def mark_read(body):
    """Mark notifications as read.

    Send `ids`, or `all` as true. Returns 422 under `ids` if one of them does not exist.
    """
    access = kit.get_current_access()
    count = inbox.mark_all_read(access) if body["all"] else inbox.mark_read(access, body["ids"])
    return {"message": f"Notifications marked as read: {count}."}


@user.get("/notification-preferences", op="preferences", can=permissions.ANY_USER, out=PREFERENCES)
def list_preferences():
    """List which notifications the token's user gets, and where.

    Kinds about resources that the user may not see are left out.
    """
    return {"message": None, "preferences": inbox.list_preferences(kit.get_current_access())}


@user.patch(
    "/notification-preferences",
    op="update_preferences",
    can=permissions.PERSONAL,
    body=InboxPreferencesPatch,
    out=PREFERENCES,
)
def update_preferences(body):
    """Change which notifications the token's user gets, and where.

    Only the kinds and fields you send are changed. Returns 422 under `preferences` for a kind that is `fixed`.
    """
    preferences = inbox.update_preferences(kit.get_current_access(), body["preferences"])
    return {"message": "Preferences saved.", "preferences": preferences}

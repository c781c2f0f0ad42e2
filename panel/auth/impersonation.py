"""Impersonation: an operator uses the panel as a customer, in a separate session, and then returns to their own.

The cookie keeps the operator's session meanwhile. The audit log names both people.
"""

from flask import request, session
from flask_login import current_user, logout_user

from panel.auth.browser_session import OPERATOR_SESSION_KEY, adopt_session, get_current_access, get_current_account
from panel.auth.tokens import get_source_address
from panel.services import audit, impersonations, sessions


def begin(account):
    """Start a session of the customer in this browser. It ends after the lifetime of impersonations."""
    get_current_access()  # cached now, so that the audit log names the operator
    operator_secret = current_user.get_id()
    secret = sessions.start(
        account,
        ip=str(get_source_address()),
        user_agent=request.user_agent.string,
        impersonator=get_current_account(),
        lifetime=impersonations.get_lifetime(),
    )
    adopt_session(secret)
    session[OPERATOR_SESSION_KEY] = operator_secret


def end():
    """End the impersonation. Return whether the operator's own session is still valid and was resumed."""
    get_current_access()  # cached now, so that the audit log names the operator as the customer
    operator_secret = session.get(OPERATOR_SESSION_KEY, "")
    audit.track(current_user.sign_in, removed=True)
    sessions.revoke(current_user.get_id())
    has_operator_session = sessions.find(operator_secret) is not None
    if has_operator_session:
        adopt_session(operator_secret)
    else:
        logout_user()
        session.clear()
    return has_operator_session

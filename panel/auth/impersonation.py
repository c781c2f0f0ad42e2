"""An operator looks at the panel as a customer, in a session of its own, and comes back to the operator's.

The cookie keeps the operator's session meanwhile. The audit log names both.
"""

from flask import request, session
from flask_login import current_user, logout_user

from panel.auth.browser_session import OPERATOR_SESSION_KEY, adopt_session, current_access, current_account
from panel.auth.tokens import source_address
from panel.services import audit, impersonations, sessions


def begin(account):
    """Makes this browser the customer's for as long as impersonations last."""
    current_access()  # it is still the operator who does this, for the audit log
    own = current_user.get_id()
    secret = sessions.start(
        account,
        ip=str(source_address()),
        user_agent=request.user_agent.string,
        impersonator=current_account(),
        lifetime=impersonations.get_lifetime(),
    )
    adopt_session(secret)
    session[OPERATOR_SESSION_KEY] = own


def end():
    """Ends it, and returns whether the operator's own session goes on."""
    current_access()  # it is still the operator as the customer who does this
    own = session.get(OPERATOR_SESSION_KEY, "")
    audit.track(current_user.sign_in, removed=True)
    sessions.revoke(current_user.get_id())
    going_on = sessions.find(own) is not None
    if going_on:
        adopt_session(own)
    else:
        logout_user()
        session.clear()
    return going_on

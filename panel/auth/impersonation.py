"""An operator looks at the panel as a customer, in a session of its own, and comes back to the operator's.

The cookie keeps the operator's session meanwhile. The audit log names both.
"""

from flask import request, session
from flask_login import current_user, logout_user

from panel.auth.browser_session import OPERATOR, carry, me, viewer
from panel.auth.tokens import source_address
from panel.services import audit, impersonations, sessions


def begin(account):
    """Makes this browser the customer's for as long as impersonations last."""
    viewer()  # it is still the operator who does this, for the audit log
    own = current_user.get_id()
    secret = sessions.start(
        account,
        ip=str(source_address()),
        user_agent=request.user_agent.string,
        impersonator=me(),
        lasting=impersonations.lasting(),
    )
    carry(secret)
    session[OPERATOR] = own


def end():
    """Ends it, and returns whether the operator's own session goes on."""
    viewer()  # it is still the operator as the customer who does this
    own = session.get(OPERATOR, "")
    audit.touch(current_user.sign_in, removed=True)
    sessions.end(current_user.get_id())
    going_on = sessions.find(own) is not None
    if going_on:
        carry(own)
    else:
        logout_user()
        session.clear()
    return going_on

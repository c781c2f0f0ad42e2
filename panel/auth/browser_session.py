"""People at the pages: from the cookie to an account, and the check that stands on every page.

The cookie holds the secret of a row that lies in the database: a session can be listed, and ended from elsewhere.
"""

import functools

from flask import current_app, g, request, session, url_for
from flask_login import LoginManager, current_user, login_user, logout_user
from werkzeug.exceptions import BadRequest

from panel.auth import permissions
from panel.auth.tokens import source_address
from panel.core.errors import Forbidden, Unauthenticated
from panel.services import access, factors, sessions

SUSPENDED_MESSAGE = "Your account is suspended: you can look, but this needs {}. Contact support."
SECOND_FACTOR_REQUIRED_MESSAGE = "Your account needs a second factor first. Set one up on your security page."
BLUEPRINTS_WITHOUT_SECOND_FACTOR = ("profile", "security", "sign_in")
"""The pages that open to a person who has to set up a second factor."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
IMPERSONATE_PERMISSION = "admin:accounts:write"
ADMIN_HOME_PERMISSION = "admin:system:read"
"""What the operators' overview needs."""
OPERATOR_SESSION_KEY = "operator"
"""Where the cookie keeps the session of an operator who looks at the panel as somebody else."""
login_manager = LoginManager()
login_manager.session_protection = None  # the row decides, not the browser's address


class SessionUser:
    """A signed-in browser, as Flask-Login wants it."""

    is_authenticated = is_active = True
    is_anonymous = False

    def __init__(self, secret, login_session):
        self.secret, self.sign_in = secret, login_session

    def get_id(self):
        return self.secret

    @property
    def account(self):
        return self.sign_in.account


@login_manager.user_loader
def load_session_user(secret):
    found = sessions.find(secret)
    if found is None or not is_impersonation_allowed(found):
        return None
    sessions.record_use(found)
    return SessionUser(secret, found)


def current_account():
    """The account of the person who looks at this page, or None when nobody is signed in or can be looked up."""
    if g.get("is_database_unavailable"):
        return None
    return current_user.account if current_user and current_user.is_authenticated else None


def current_access():
    """Whose resources the person sees and what may be done with them, looked up once a request; None when nobody is
    signed in."""
    if g.get("access") is None:
        g.access = current_account() and access.get_for_account(current_account(), current_user.sign_in.impersonator)
    return g.access


def actor():
    """Who asked, for the history."""
    return current_access().actor


def log_in(account, device=None):
    """Begins a session of this browser. From here on it is this person who acts, whoever was signed in before."""
    g.pop("access", None)
    adopt_session(
        sessions.start(account, ip=str(source_address()), user_agent=request.user_agent.string, device=device)
    )


def adopt_session(secret):
    """Gives this browser the session with the secret, and takes all others from it."""
    session.clear()
    session.permanent = True
    login_user(SessionUser(secret, sessions.find(secret)))


def is_impersonation_allowed(login_session):
    """Whether a session in somebody else's name may go on: while the operator may do that, and with customers only."""
    operator = login_session.impersonator
    may_go_on = (
        operator
        and not operator.suspended_at
        and permissions.has_operator_permission(operator.operator_role, IMPERSONATE_PERMISSION)
    )
    return operator is None or (may_go_on and not login_session.account.is_admin)


def find_impersonator():
    """The operator who looks at this page as somebody else, or None."""
    return current_user.sign_in.impersonator if current_account() else None


def log_out():
    """Signs the browser out; an operator who looks at the panel as somebody is signed out altogether."""
    current_access()  # who leaves is still asked for, by the audit log
    sessions.revoke(current_user.get_id())
    sessions.revoke(session.get(OPERATOR_SESSION_KEY, ""))
    logout_user()
    session.clear()


def require_page_permission(permission):
    """Lets the page run only for a person who holds the permission, and acts only for pages of our own."""
    permissions.check(permission)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if request.method not in SAFE_METHODS:
                ensure_same_origin()
            ensure_permission(permission)
            return view(*args, **kwargs)

        guarded.permission = permission
        return guarded

    return guard


def ensure_permission(permission):
    if permission == permissions.PUBLIC:
        return
    if current_account() is None:
        raise Unauthenticated("Sign in to go on.")
    if request.blueprint not in BLUEPRINTS_WITHOUT_SECOND_FACTOR and is_second_factor_missing():
        raise Forbidden(SECOND_FACTOR_REQUIRED_MESSAGE, reason="second_factor_required")
    why = permission_error(permission)
    if why:
        raise Forbidden(why)


def is_second_factor_missing():
    """Whether the person has to set up a second factor before anything else opens."""
    return not current_user.sign_in.impersonator_id and factors.is_second_factor_missing(current_account())


def permission_error(permission):
    """Why the viewer may not do this, as a sentence, or None."""
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        if not permissions.has_operator_permission(current_account().operator_role, permission):
            return operator_permission_message(current_account().operator_role, permission)
        return SUSPENDED_MESSAGE.format(permission) if current_account().suspended_at else None
    if current_access().impersonator and permission in permissions.FORBIDDEN_WHILE_IMPERSONATING:
        return "This cannot be done in somebody else's name. It stays with the person."
    if permission in permissions.ROLE_INDEPENDENT:
        return None
    if not current_access().has_permission(permission):
        return f"Your role in the team does not permit this: it needs {permission}. Ask the account's owner for it."
    if current_access().suspended and not permission.endswith(".view"):
        return SUSPENDED_MESSAGE.format(permission)
    return None


def operator_permission_message(role, permission):
    """What somebody is told who lacks a permission of operators, and who can give it."""
    if role is None:
        return f"This is for operators: it needs the permission {permission}. An operator can give it to you."
    label = permissions.OPERATOR_ROLE_LABELS[role]
    return (
        f"Your operator role ({label}) does not include the permission {permission}. "
        "An operator with full access can change your role."
    )


def home_url():
    """The address of the person's first page: operators have the admin overview, customers their own."""
    return url_for("admin.show" if has_permission(ADMIN_HOME_PERMISSION) else "overview.show")


def has_permission(permission):
    return permission_error(permission) is None


def ensure_same_origin():
    """Another site must not act with our cookie. Browsers say where a form came from; who says nothing is refused."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin", "")
    if site in ("same-origin", "none") or (site is None and is_own_origin(origin)):
        return
    raise BadRequest("This form was not sent from a page of this panel. Go back, load the page again and repeat it.")


def is_own_origin(origin):
    return origin in (request.host_url.rstrip("/"), current_app.extensions["config"].public_url.rstrip("/"))

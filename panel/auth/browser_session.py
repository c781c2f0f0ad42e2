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

SUSPENDED = "Your account is suspended: you can look, but this needs {}. Contact support."
FACTOR_FIRST = "Your account needs a second factor first. Set one up on your security page."
WITHOUT_FACTOR = ("profile", "security", "sign_in")
"""The pages that open to a person who has to set up a second factor."""
SAFE = ("GET", "HEAD", "OPTIONS")
IMPERSONATE = "admin:accounts:write"
ADMIN_HOME_PERMISSION = "admin:system:read"
"""What the operators' overview needs."""
OPERATOR = "operator"
"""Where the cookie keeps the session of an operator who looks at the panel as somebody else."""
manager = LoginManager()
manager.session_protection = None  # the row decides, not the browser's address


class Person:
    """A signed-in browser, as Flask-Login wants it."""

    is_authenticated = is_active = True
    is_anonymous = False

    def __init__(self, secret, sign_in):
        self.secret, self.sign_in = secret, sign_in

    def get_id(self):
        return self.secret

    @property
    def account(self):
        return self.sign_in.account


@manager.user_loader
def person(secret):
    found = sessions.find(secret)
    if found is None or not impersonable(found):
        return None
    sessions.seen(found)
    return Person(secret, found)


def me():
    """The account of the person who looks at this page, or None when nobody is signed in or can be looked up."""
    if g.get("is_database_unavailable"):
        return None
    return current_user.account if current_user and current_user.is_authenticated else None


def viewer():
    """Whose resources the person sees and what may be done with them, looked up once a request; None when nobody is
    signed in."""
    if g.get("access") is None:
        g.access = me() and access.of_account(me(), current_user.sign_in.impersonator)
    return g.access


def actor():
    """Who asked, for the history."""
    return viewer().actor


def enter(account, device=None):
    """Begins a session of this browser. From here on it is this person who acts, whoever was signed in before."""
    g.pop("access", None)
    carry(sessions.start(account, ip=str(source_address()), user_agent=request.user_agent.string, device=device))


def carry(secret):
    """Gives this browser the session with the secret, and takes all others from it."""
    session.clear()
    session.permanent = True
    login_user(Person(secret, sessions.find(secret)))


def impersonable(sign_in):
    """Whether a session in somebody else's name may go on: while the operator may do that, and with customers only."""
    operator = sign_in.impersonator
    may_go_on = operator and not operator.suspended_at and permissions.operator_may(operator.operator_role, IMPERSONATE)
    return operator is None or (may_go_on and not sign_in.account.is_admin)


def impersonator():
    """The operator who looks at this page as somebody else, or None."""
    return current_user.sign_in.impersonator if me() else None


def leave():
    """Signs the browser out; an operator who looks at the panel as somebody is signed out altogether."""
    viewer()  # who leaves is still asked for, by the audit log
    sessions.end(current_user.get_id())
    sessions.end(session.get(OPERATOR, ""))
    logout_user()
    session.clear()


def page_can(permission):
    """Lets the page run only for a person who holds the permission, and acts only for pages of our own."""
    permissions.check(permission)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if request.method not in SAFE:
                refuse_foreign()
            require(permission)
            return view(*args, **kwargs)

        guarded.permission = permission
        return guarded

    return guard


def require(permission):
    if permission == permissions.PUBLIC:
        return
    if me() is None:
        raise Unauthenticated("Sign in to go on.")
    if request.blueprint not in WITHOUT_FACTOR and lacks_factor():
        raise Forbidden(FACTOR_FIRST, reason="second_factor_required")
    why = refusal(permission)
    if why:
        raise Forbidden(why)


def lacks_factor():
    """Whether the person has to set up a second factor before anything else opens."""
    return not current_user.sign_in.impersonator_id and factors.missing(me())


def refusal(permission):
    """Why the viewer may not do this, as a sentence, or None."""
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        if not permissions.operator_may(me().operator_role, permission):
            return missing_operator_permission(me().operator_role, permission)
        return SUSPENDED.format(permission) if me().suspended_at else None
    if viewer().impersonator and permission in permissions.NEVER_AS_ANOTHER:
        return "This cannot be done in somebody else's name. It stays with the person."
    if permission in permissions.ROLELESS:
        return None
    if not viewer().holds(permission):
        return f"Your role in the team does not permit this: it needs {permission}. Ask the account's owner for it."
    if viewer().suspended and not permission.endswith(".view"):
        return SUSPENDED.format(permission)
    return None


def missing_operator_permission(role, permission):
    """What somebody is told who lacks a permission of operators, and who can give it."""
    if role is None:
        return f"This is for operators: it needs the permission {permission}. An operator can give it to you."
    label = permissions.OPERATOR_ROLE_LABELS[role]
    return (
        f"Your operator role ({label}) does not include the permission {permission}. "
        "An operator with full access can change your role."
    )


def home():
    """The address of the person's first page: operators have the admin overview, customers their own."""
    return url_for("admin.show" if may(ADMIN_HOME_PERMISSION) else "overview.show")


def may(permission):
    return refusal(permission) is None


def refuse_foreign():
    """Another site must not act with our cookie. Browsers say where a form came from; who says nothing is refused."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin", "")
    if site in ("same-origin", "none") or (site is None and own(origin)):
        return
    raise BadRequest("This form was not sent from a page of this panel. Go back, load the page again and repeat it.")


def own(origin):
    return origin in (request.host_url.rstrip("/"), current_app.extensions["config"].public_url.rstrip("/"))

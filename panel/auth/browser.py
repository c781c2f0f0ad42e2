"""People at the pages: from the cookie to an account, and the check that stands on every page.

The cookie holds the secret of a row that lies in the database: a session can be listed, and ended from elsewhere.
"""

import functools

from flask import current_app, request, session
from flask_login import LoginManager, current_user, login_user, logout_user
from werkzeug.exceptions import BadRequest

from panel.auth import permissions
from panel.auth.caller import source_address
from panel.errors import Forbidden, Unauthenticated
from panel.services import sign_ins

SAFE = ("GET", "HEAD", "OPTIONS")
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
    found = sign_ins.find(secret)
    return found and Person(secret, found)


def viewer():
    """The account that looks at this page, or None when nobody is signed in."""
    return current_user.account if current_user and current_user.is_authenticated else None


def actor():
    """Who asked, for the history."""
    return viewer().email


def enter(account):
    """Begins a session of this browser."""
    secret = sign_ins.start(account, ip=str(source_address()), user_agent=request.user_agent.string)
    session.clear()
    session.permanent = True
    login_user(Person(secret, sign_ins.find(secret)))


def leave():
    sign_ins.end(current_user.get_id())
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
    if viewer() is None:
        raise Unauthenticated("Sign in to go on.")
    why = refusal(permission)
    if why:
        raise Forbidden(why)


def refusal(permission):
    """Why the viewer may not do this, as a sentence, or None. Customers hold every permission of their own account."""
    account = viewer()
    if permission.startswith(("admin:", permissions.ANY_ADMIN)) and not account.is_admin:
        return f"This is for operators: it needs the permission {permission}. An operator can give it to you."
    if account.suspended_at and permission != permissions.ANY_USER and not permission.endswith(":read"):
        return f"Your account is suspended: you can look, but this needs {permission}. Contact support."
    return None


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

"""Browser sessions: from the cookie to an account, and the permission and same-origin (CSRF) checks of every page.

The cookie has the secret of a session's row in the database, so that sessions can be listed and revoked.
"""

import functools

from flask import current_app, g, request, session, url_for
from flask_login import LoginManager, current_user, login_user, logout_user
from werkzeug.exceptions import BadRequest

from panel.auth import permissions
from panel.auth.tokens import get_source_address
from panel.core import languages
from panel.core.errors import ConfirmationRequired, Forbidden, Unauthenticated
from panel.core.messages import message
from panel.services import access, brands, factors, sessions

SUSPENDED_MESSAGE = message("Your account is suspended: you can view everything, but change nothing. Contact support.")
SECOND_FACTOR_REQUIRED_MESSAGE = message(
    "Your account needs two-factor authentication first. Set it up on your security page."
)
BLUEPRINTS_WITHOUT_SECOND_FACTOR = ("profile", "security", "sign_in")
"""Pages that are open to people who still have to set up a required second factor."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
IMPERSONATE_PERMISSION = "admin:accounts:write"
ADMIN_HOME_PERMISSION = "admin:system:read"
"""The permission for the operators' overview."""
OPERATOR_SESSION_KEY = "operator"
"""Key in the cookie for the operator's own session during an impersonation."""
login_manager = LoginManager()
login_manager.session_protection = None  # the row decides, not address and user agent


class SessionUser:
    """A signed-in browser, with the interface of Flask-Login."""

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
    login_session = sessions.find(secret)
    if login_session is None or not is_impersonation_allowed(login_session):
        return None
    sessions.record_use(login_session)
    set_language_of_mails(login_session.impersonator or login_session.account)
    return SessionUser(secret, login_session)


def set_language_of_mails(person):
    """Let the mails of this request be written in the language that the person has chosen, if any."""
    if person.language in languages.list_languages():
        languages.current_language.set(person.language)


def find_browser_language():
    """Return the language that the browser prefers among those of the panel, or None."""
    available = languages.list_languages()
    return request.accept_languages.best_match(available) if len(available) > 1 else None


def get_current_account():
    """Return the account of the viewer, or None when nobody is signed in or the database is unavailable."""
    if g.get("is_database_unavailable"):
        return None
    user = current_user._get_current_object()  # once, because each access through the proxy looks it up
    return user.account if user and user.is_authenticated else None


def get_current_access():
    """Return the viewer's access to resources, queried once per request; None when nobody is signed in."""
    if g.get("access") is None:
        g.access = get_current_account() and access.get_for_account(
            get_current_account(), current_user.sign_in.impersonator
        )
    return g.access


def get_current_actor():
    """Return the name of the viewer for events and tasks."""
    return get_current_access().actor


def log_in(account, device=None):
    """Start a session of this browser. For the rest of the request, the viewer is this account."""
    g.pop("access", None)
    adopt_session(
        sessions.start(account, ip=str(get_source_address()), user_agent=request.user_agent.string, device=device)
    )


def adopt_session(secret):
    """Replace the browser's session by the one with this secret."""
    session.clear()
    session.permanent = True
    login_user(SessionUser(secret, sessions.find(secret)))


def is_impersonation_allowed(login_session):
    """Return whether the session may continue. An impersonation may while its operator has the permission and the
    account is a customer's; other sessions always may."""
    operator = login_session.impersonator
    is_operator_allowed = (
        operator
        and not operator.suspended_at
        and permissions.has_operator_permission(operator.operator_role, IMPERSONATE_PERMISSION)
    )
    return operator is None or (is_operator_allowed and not login_session.account.is_admin)


def find_impersonator():
    """Return the operator who impersonates the viewer, or None."""
    return current_user.sign_in.impersonator if get_current_account() else None


def log_out():
    """Sign the browser out. During an impersonation, the operator's own session is revoked too."""
    get_current_access()  # cached now, because the audit log needs it afterwards
    sessions.revoke(current_user.get_id())
    sessions.revoke(session.get(OPERATOR_SESSION_KEY, ""))
    logout_user()
    session.clear()


def require_page_permission(permission):
    """Decorate a page's view so that it runs only for people with the permission. Requests with a writing method must
    come from a page of this panel."""
    permissions.validate_permission(permission)

    def guard(view):
        @functools.wraps(view)
        def guarded(*args, **kwargs):
            if request.method not in SAFE_METHODS:
                ensure_same_origin()
            ensure_permission(permission)
            if request.method not in SAFE_METHODS:
                ensure_confirmed()
            return view(*args, **kwargs)

        guarded.permission = permission
        return guarded

    return guard


def ensure_permission(permission):
    if permission == permissions.PUBLIC:
        return
    if get_current_account() is None:
        raise Unauthenticated(message("Sign in to continue."))
    if request.blueprint not in BLUEPRINTS_WITHOUT_SECOND_FACTOR and is_second_factor_missing():
        raise Forbidden(SECOND_FACTOR_REQUIRED_MESSAGE, reason="second_factor_required")
    reason = permission_error(permission)
    if reason:
        raise Forbidden(reason)


def is_second_factor_missing():
    """Return whether the viewer must set up a second factor first. Never during an impersonation."""
    return not current_user.sign_in.impersonator_id and factors.is_second_factor_missing(get_current_account())


def permission_error(permission):
    """Return a message why the viewer may not do this, or None."""
    if permission.startswith(("admin:", permissions.ANY_ADMIN)):
        if not permissions.has_operator_permission(get_current_account().operator_role, permission):
            return get_operator_permission_message(get_current_account().operator_role, permission)
        return SUSPENDED_MESSAGE if get_current_account().suspended_at else None
    if get_current_access().impersonator and permission in permissions.FORBIDDEN_WHILE_IMPERSONATING:
        return message("This is not possible while acting as another person.")
    if permission in permissions.ROLE_INDEPENDENT:
        return None
    if not get_current_access().has_permission(permission):
        return message(
            "Your role in the team does not permit this: it needs {permission}. Ask the account's owner for it.",
            permission=permission,
        )
    if get_current_access().suspended and not permission.endswith(".view"):
        return SUSPENDED_MESSAGE
    return None


def get_operator_permission_message(role, permission):
    """Return the message for a missing operators' permission, which names who can grant it."""
    if role is None:
        return message(
            "This is for operators: it needs the permission {permission}. An operator can give it to you.",
            permission=permission,
        )
    label = permissions.OPERATOR_ROLE_LABELS.get(role, role)
    return message(
        "Your operator role ({label}) does not include the permission {permission}. "
        "An operator with full access can change your role.",
        label=label,
        permission=permission,
    )


def get_home_url():
    """Return the URL of the viewer's first page: the operators' or the customers' overview."""
    return url_for("admin.show" if has_permission(ADMIN_HOME_PERMISSION) else "overview.show")


def has_permission(permission):
    return permission_error(permission) is None


def ensure_same_origin():
    """Raise BadRequest unless the form comes from this panel (CSRF protection). Browsers send Sec-Fetch-Site or Origin;
    a request with neither is refused."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin", "")
    if site in ("same-origin", "none") or (site is None and is_own_origin(origin)):
        return
    raise BadRequest(
        message("This form was not sent from a page of this panel. Go back, reload the page and try again.")
    )


def ensure_confirmed():
    """Raise ConfirmationRequired for a form with a question that nobody has answered. Scripts ask it before they send
    the form, and leave it out."""
    if request.args.get("confirm"):
        raise ConfirmationRequired(request.args["confirm"])


def is_own_origin(origin):
    public_url = current_app.extensions["config"].public_url.rstrip("/")
    return origin in (request.host_url.rstrip("/"), public_url) or origin == brands.get_current().url

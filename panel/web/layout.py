"""What every page has around it: navigation, tasks, who is signed in, and the headers that keep it to itself."""

import secrets
from datetime import timedelta

from flask import current_app, g, request, url_for

from panel.auth import browser_session
from panel.core import clock
from panel.core.db import session
from panel.models import Account
from panel.pages import admin, customer
from panel.pages.customer.tasks import recent_tasks
from panel.pages.shared import area
from panel.services import sessions, settings, usage
from panel.web import assets, formatting


def init_app(app):
    """Gives an application its pages' surroundings."""
    config = app.extensions["config"]
    app.config |= {
        "SESSION_COOKIE_NAME": "panel",
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SESSION_COOKIE_SECURE": config.is_https,
        "SESSION_REFRESH_EACH_REQUEST": False,
        "PERMANENT_SESSION_LIFETIME": sessions.SESSION_LIFETIME,
    }
    browser_session.login_manager.init_app(app)
    app.after_request(set_security_headers)
    app.context_processor(template_context)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals |= {
        "asset": assets.asset_url,
        "icon_address": assets.icon_url,
        "ui": Macros(app.jinja_env),
        "area": area.endpoint_prefix,
        "may": area.has_permission,
        "refusal": area.permission_error,
        "nonce": csp_nonce,
        "now": clock.now,
        "zone": viewer_timezone,
        "ago": lambda moment: formatting.timeago_tag(moment, viewer_timezone()),
        "exact": lambda moment: formatting.format_datetime(moment, viewer_timezone()),
        "hour": lambda moment: formatting.format_time(moment, viewer_timezone()),
        "second": lambda moment: formatting.format_time_seconds(moment, viewer_timezone()),
        "charged": are_prices_shown,
        "operator_area": area.is_operator_area,
        "money": lambda amount: formatting.money(amount, config.currency),
    }
    words = ("duration", "size", "mib", "gib", "rate", "traffic", "transfer", "plural")
    app.jinja_env.globals |= {name: getattr(formatting, name) for name in words}


class Macros:
    """`ui` in every template: the macros of ui.html, also where a block is rendered alone and imports are missing."""

    def __init__(self, environment):
        self.environment = environment

    def __getattr__(self, name):
        return getattr(self.environment.get_template("ui.html").module, name)


def are_prices_shown():
    """Whether what the page shows costs something: prices are shown only then."""
    free = (
        not area.is_operator_area() and browser_session.current_account() and browser_session.current_access().unbilled
    )
    return settings.get().billing_enabled and not free


def viewer_timezone():
    account = browser_session.current_account()
    return account.timezone if account else "UTC"


def template_context():
    account = browser_session.current_account()
    operating = area.is_operator_area()
    frame = PageLayout(account, operating)
    return {
        "viewer": account,
        "operating": operating,
        "frame": frame,
        "impersonator": browser_session.find_impersonator(),
    }


class PageLayout:
    """The parts of the frame, worked out only when a template asks for them: a part of a page needs none."""

    def __init__(self, account, operating):
        self.account, self.is_operator_area = account, operating

    @property
    def navigation(self):
        """The groups with the pages that the person may see."""
        table = admin.NAVIGATION if self.is_operator_area else customer.NAVIGATION
        for group, *pages in table:
            shown = [page for page in pages if self.is_offered(page)]
            if shown:
                yield group, shown

    def search_pages(self, words):
        """The pages of both sides whose name has these words, as rows of the search."""
        for table, side in ((customer.NAVIGATION, ""), (admin.NAVIGATION, "Admin")):
            for label, symbol, endpoint, permission in (page for _, *pages in table for page in pages):
                page = (label, symbol, endpoint, permission)
                if words.lower() in label.lower() and self.is_offered(page):
                    yield symbol, label, side, url_for(endpoint)

    def is_offered(self, page):
        """Whether the person may see the page, and what it is for can be used."""
        _, _, endpoint, permission = page
        return browser_session.has_permission(permission) and (
            endpoint not in customer.BILLED_PAGES or usage.is_billing_enabled(browser_session.current_access())
        )

    @property
    def home(self):
        """The first page of the area that is open."""
        return browser_session.home_url() if self.is_operator_area else url_for("overview.show")

    @property
    def search(self):
        """Where the palette searches: operators' pages search the whole platform."""
        return url_for("admin_search.show" if self.is_operator_area else "search.show")

    @property
    def areas(self):
        """The two areas that an operator switches between: label, address, whether it is open. Customers have one."""
        if browser_session.has_permission(browser_session.ADMIN_HOME_PERMISSION):
            yield "Admin", url_for("admin.show"), self.is_operator_area
            yield "My resources", url_for("overview.show"), not self.is_operator_area

    @property
    def recent_tasks(self):
        """The viewer's tasks of late; None to who may not see them."""
        return (
            recent_tasks(browser_session.current_access()) if browser_session.has_permission("instances.view") else None
        )

    @property
    def suspended(self):
        """The account whose suspension holds the viewer up: the person's, or that of the team's owner; else None."""
        if self.account.suspended_at:
            return self.account
        return (
            session.get(Account, browser_session.current_access().id)
            if browser_session.current_access().suspended
            else None
        )

    def at(self, endpoint):
        """Whether the page belongs to this entry of the navigation."""
        return endpoint.partition(".")[0] == request.blueprint


def csp_nonce():
    """The word that lets a script of this answer run, and no other."""
    if "nonce" not in g:
        g.nonce = secrets.token_urlsafe(16)
    return g.nonce


def set_security_headers(response):
    """Says what a page may load and who may keep or frame it. What a view has set itself is left alone."""
    headers = response.headers
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
    if current_app.extensions["config"].is_https:
        headers.setdefault("Strict-Transport-Security", f"max-age={int(timedelta(days=365).total_seconds())}")
    if response.mimetype == "text/html":
        headers.setdefault("Content-Security-Policy", content_security_policy())
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
    return response


def content_security_policy():
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'nonce-{csp_nonce()}'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )

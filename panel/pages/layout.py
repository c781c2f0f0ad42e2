"""The layout of every page: navigation, recent tasks, the signed-in account, template globals and security headers."""

import secrets
from datetime import timedelta
from functools import cached_property
from zlib import crc32

from flask import current_app, g, request, url_for
from sqlalchemy import func, literal, select

from panel.auth import browser_session
from panel.core import clock, formatting
from panel.core.db import session
from panel.core.task_kinds import task_label
from panel.models import Account
from panel.pages.customer.tasks import MAX_MENU_TASKS, list_recent_tasks
from panel.pages.shared import area
from panel.services import announcements, inbox, saved_filters, sessions, settings, tasks, usage
from panel.web import assets, branding, instance_states, marks, paging, relative_times, translation, word_labels
from panel.web.htmx import is_partial
from panel.web.page_registry import get_customer_pages, get_operator_pages

TINTS = 6
"""Colors of avatars (.tint-1 and so on in app.css)."""

MAX_COUNTED_ATTENTION = 100
"""The navigation shows this and any higher number as 99+."""


def init_app(app):
    """Set up sessions, template globals and security headers of an application with pages."""
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
    app.context_processor(build_template_context)
    translation.init_app(app)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals |= {
        "asset_url": assets.asset_url,
        "find_flag_url": marks.find_flag_url,
        "find_mark": marks.find_mark,
        "mark_url": marks.mark_url,
        "get_brand": branding.get_request_brand,
        "list_brand_links": branding.list_links,
        "icon_url": assets.icon_url,
        "is_csv_requested": paging.is_csv_requested,
        "ui": Macros(app.jinja_env),
        "endpoint_prefix": area.get_endpoint_prefix,
        "has_permission": area.has_permission,
        "permission_error": area.permission_error,
        "nonce": get_csp_nonce,
        "now": clock.now,
        "get_page_time_ms": lambda: int(clock.now().timestamp() * 1000),  # templates have variables named now
        "instance_state": instance_states.describe_state,
        "viewer_timezone": get_viewer_timezone,
        "timeago": lambda moment: relative_times.build_timeago_tag(moment, get_viewer_timezone()),
        "relative_times": relative_times.list_script_texts,
        "format_datetime": lambda moment: formatting.format_datetime(moment, *get_viewer_locale()),
        "format_date": localize(formatting.format_date),
        "format_day": lambda moment, **options: formatting.format_day(
            moment, translation.get_request_language(), **options
        ),
        "format_time": lambda moment: formatting.format_time(moment, *get_viewer_locale()),
        "format_time_seconds": lambda moment: formatting.format_time_seconds(moment, get_viewer_timezone()),
        "are_prices_shown": are_prices_shown,
        "is_operator_area": area.is_operator_area,
        "task_label": lambda kind: translation.gettext(task_label(kind)),
        "word_label": word_labels.word_label,
        "format_money": lambda amount: localize(formatting.format_money)(amount, config.currency),
        "format_duration": formatting.format_duration,
        "localize_number": localize(formatting.localize_number),
    }
    units = ("count", "size", "mib", "gib", "rate", "traffic", "transfer")
    app.jinja_env.globals |= {f"format_{unit}": localize(getattr(formatting, f"format_{unit}")) for unit in units}


def localize(function):
    """Return the function with the language of the request as its last argument."""
    return lambda *arguments: function(*arguments, translation.get_request_language())


class Macros:
    """The macros of ui.html as `ui` in every template. Needed because imports are missing when one block is rendered
    alone."""

    def __init__(self, environment):
        self.environment = environment

    @property
    def module(self):
        return self.environment.get_template("ui.html").module

    def __getattr__(self, name):
        macro = getattr(self.module, name)
        if not self.environment.auto_reload:  # the template cannot change
            setattr(self, name, macro)
        return macro


def are_prices_shown():
    """Return whether the page shows prices: billing is enabled and the viewer is billed."""
    is_unbilled = (
        not area.is_operator_area()
        and browser_session.get_current_account()
        and browser_session.get_current_access().unbilled
    )
    return settings.get().billing_enabled and not is_unbilled


def get_viewer_timezone():
    account = browser_session.get_current_account()
    return account.timezone if account else "UTC"


def get_viewer_locale():
    """Return the time zone and the language of the viewer."""
    return get_viewer_timezone(), translation.get_request_language()


def build_template_context():
    account = browser_session.get_current_account()
    is_operator_area = area.is_operator_area()
    layout = PageLayout(account, is_operator_area)
    return {
        "viewer": account,
        "layout": layout,
        "impersonator": browser_session.find_impersonator(),
    }


class PageLayout:
    """The parts of the layout (`layout` in templates), computed on access, because partials need none of them."""

    def __init__(self, account, is_operator_area):
        self.account, self.is_operator_area = account, is_operator_area

    @cached_property
    def navigation(self):
        """Return (group, entries) with the pages that the viewer may open, except those of the account menu."""
        pages = get_operator_pages() if self.is_operator_area else get_customer_pages()
        groups = [(group, self.list_offered(entries)) for group, entries in pages.navigation]
        return [(group, entries) for group, entries in groups if entries and not group.is_in_account_menu]

    @property
    def account_entries(self):
        """Return the pages of the account menu. Operators' own tokens and bills are in the customer area."""
        if self.is_operator_area:
            return [entry for entry in get_customer_pages().entries if entry.endpoint == "profile.show"]
        groups = get_customer_pages().navigation
        return [entry for group, entries in groups if group.is_in_account_menu for entry in self.list_offered(entries)]

    @property
    def offered_entries(self):
        """Return all pages of the customer area that the viewer may open."""
        return self.list_offered(get_customer_pages().entries)

    def list_offered(self, entries):
        return [entry for entry in entries if self.is_offered(entry)]

    @cached_property
    def counts(self):
        """Return the numbers that every page shows: by endpoint the rows of the pages of the navigation that need
        attention, and `unread_messages`, `announcements` and `open_tasks`. One query."""
        access = browser_session.get_current_access()
        queries = {
            entry.endpoint: (entry.select_attention(access), MAX_COUNTED_ATTENTION)
            for _group, entries in self.navigation
            for entry in entries
            if entry.select_attention
        }
        queries["unread_messages"] = inbox.listing(access, unread=True), inbox.MAX_COUNTED_UNREAD
        queries["announcements"] = announcements.select_shown(access), announcements.MAX_BANNERS
        queries["open_tasks"] = tasks.listing(access, status="open"), MAX_MENU_TASKS
        columns = [select(func.count()).select_from(limit_rows(*query)).scalar_subquery() for query in queries.values()]
        return dict(zip(queries, session.execute(select(*columns)).one(), strict=True))

    @property
    def shortcut_entries(self):
        """Return the entries of the navigation that have a keyboard shortcut."""
        return [entry for _group, entries in self.navigation for entry in entries if entry.shortcut]

    def search_pages(self, text):
        """Yield (icon, label, area, URL, no actions) of the pages of both areas whose label contains the text."""
        for pages, area_label in ((get_customer_pages(), ""), (get_operator_pages(), translation.gettext("Admin"))):
            for entry in pages.entries:
                label = translation.gettext(entry.label)
                if text.lower() in label.lower() and self.is_offered(entry):
                    yield entry.icon, label, area_label, url_for(entry.endpoint), None

    def search_themes(self, text):
        """Yield (icon, label, value of the preference) of the themes whose label contains the text. A script applies
        them, so the search page without scripts has none."""
        labels = (
            translation.gettext("Light theme"),
            translation.gettext("Dark theme"),
            translation.gettext("System theme"),
        )
        for icon, label, theme in zip(
            ("sun", "moon", "device-desktop"), labels, ("light", "dark", "auto"), strict=True
        ):
            if is_partial() and text.lower() in label.lower():
                yield icon, label, theme

    def is_offered(self, entry):
        """Return whether the viewer may open the page and its feature is enabled."""
        return browser_session.has_permission(entry.permission) and (
            not entry.is_billed or usage.is_billing_enabled(browser_session.get_current_access())
        )

    @property
    def home(self):
        """Return the URL of the current area's first page."""
        return browser_session.get_home_url() if self.is_operator_area else url_for("overview.show")

    @property
    def search(self):
        """Return the URL of the search palette. In the operator area it searches the whole platform."""
        return url_for("admin_search.show" if self.is_operator_area else "search.show")

    @property
    def areas(self):
        """Yield (label, URL, is current) of the two areas that operators switch between; nothing for customers."""
        if browser_session.has_permission(browser_session.ADMIN_HOME_PERMISSION):
            yield translation.gettext("Admin"), url_for("admin.show"), self.is_operator_area
            yield translation.gettext("My resources"), url_for("overview.show"), not self.is_operator_area

    @property
    def recent_tasks(self):
        """Return the viewer's recent tasks, or None without the permission to see them."""
        if not browser_session.has_permission("instances.view"):
            return None
        return list_recent_tasks(browser_session.get_current_access(), has_open_tasks=self.counts["open_tasks"] > 0)

    @property
    def unread_messages(self):
        """Return the number of unread messages in the viewer's inbox, as the text of a badge; empty for none."""
        count = self.counts["unread_messages"]
        return f"{count - 1}+" if count == inbox.MAX_COUNTED_UNREAD else str(count or "")

    @property
    def announcements(self):
        """Return the announcements that the viewer sees and has not dismissed."""
        access = browser_session.get_current_access()
        return announcements.list_banners(access) if self.counts["announcements"] else []

    @property
    def suspended(self):
        """Return the suspended account that restricts the viewer: their own, or the team owner's; else None."""
        if self.account.suspended_at:
            return self.account
        return (
            session.get(Account, browser_session.get_current_access().id)
            if browser_session.get_current_access().suspended
            else None
        )

    @property
    def saved_filters(self):
        """Return the viewer's saved filters of the current list."""
        return session.scalars(saved_filters.listing(self.account, request.endpoint)).all()

    @property
    def icon(self):
        """Return the icon of the current page's entry in the navigation, or None."""
        pages = get_operator_pages() if self.is_operator_area else get_customer_pages()
        return next((entry.icon for entry in pages.entries if self.is_current(entry)), None)

    @property
    def initials(self):
        """Return the first letters of the account's name."""
        return "".join(word[0] for word in self.account.name.split()[:2]).upper()

    @property
    def tint(self):
        """Return the number of the account's color, from 1 to 6. It stays the same."""
        return crc32(self.account.id.encode()) % TINTS + 1

    def has_current(self, entries):
        return any(self.is_current(entry) for entry in entries)

    def is_current(self, entry):
        """Return whether the current page belongs to this entry of the navigation."""
        return request.blueprint in (entry.endpoint.partition(".")[0], *entry.further_blueprints)


def limit_rows(query, maximum):
    """Return a subquery with up to that many rows of the query, without their columns."""
    query = query.with_only_columns(literal(1).label("row"), maintain_column_froms=True).order_by(None)
    return query.limit(maximum).subquery()


def get_csp_nonce():
    """Return the nonce of this answer, which only its own scripts have."""
    if "nonce" not in g:
        g.nonce = secrets.token_urlsafe(16)
    return g.nonce


def set_security_headers(response):
    """Set the security and caching headers that the view has not set itself."""
    headers = response.headers
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
    if current_app.extensions["config"].is_https:
        headers.setdefault("Strict-Transport-Security", f"max-age={int(timedelta(days=365).total_seconds())}")
    if response.mimetype == "text/html":
        headers.setdefault("Content-Security-Policy", build_content_security_policy())
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
    return response


def build_content_security_policy():
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'nonce-{get_csp_nonce()}'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )

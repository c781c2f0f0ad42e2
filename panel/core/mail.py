"""Mails: a row is recorded in the transaction, and a worker is notified after its commit.

    mail.send(account.email, "invitation", team="Ada's", link="/invitation/…")

A mail is one text file in templates/mail/: the subject, an empty line, paragraphs. A paragraph `label: https://…`
becomes a button of the HTML part. Links among the facts are paths: the mail has the address of its recipient's brand.
A mail is written in its recipient's language if the panel knows it, else in that of the request that caused it, else in
English. The row is authoritative, as with tasks: after a lost notification or while the mail server is unavailable, the
mail is late, not lost.
"""

import re
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from panel.core import context, formatting, jobs, messages
from panel.core.brand_identity import BrandIdentity, current_host
from panel.core.config import ROOT
from panel.core.db import on_commit, session
from panel.core.languages import DEFAULT_LANGUAGE, current_language, load_translations
from panel.models import Mail

LINK_FACTS = ("link", "preferences_link")
"""Facts that are paths of pages until the mail is composed."""
BUTTON_PATTERN = re.compile(r"(?P<label>[^\n]+): (?P<url>https?://\S+)")


@cache
def get_template_environment(language: str) -> Environment:
    """Return the Jinja environment that renders the templates in a language."""
    environment = Environment(
        loader=FileSystemLoader(ROOT / "templates" / "mail"),
        autoescape=lambda name: (name or "").endswith(".html"),
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    translations = load_translations(language)
    environment.install_gettext_translations(translations, newstyle=True)  # type: ignore[attr-defined]  # of the extension
    environment.finalize = partial(messages.translate_with, translations=translations)
    environment.policies["ext.i18n.trimmed"] = True
    environment.filters["exact"] = lambda text, zone: format_exact_time(text, zone, language)
    environment.filters["localize_number"] = lambda text: formatting.localize_number(
        messages.translate_with(text, translations), language
    )
    return environment


def format_exact_time(text: str, zone: str, language: str) -> str:
    """Return a moment among a mail's facts, which JSON keeps in ISO format, in the recipient's time zone."""
    try:
        return formatting.format_datetime(datetime.fromisoformat(text), zone, language)
    except ValueError:
        return text  # of a mail that an earlier version recorded


def send(recipient: str, template: str, *, brand_id: str | None = None, **facts: Any) -> Mail:
    """Record a mail and have it sent after the commit. `facts` must be serializable as JSON; they are stored
    encrypted. `brand_id` is the brand for a recipient without an account."""
    language = current_language.get()
    get_template_environment(language).get_template(
        f"{template}.txt"
    )  # fail here, not in the worker, for a misspelt name
    if language != DEFAULT_LANGUAGE:
        facts["language"] = language
    if brand_id:
        facts["brand_id"] = brand_id
    elif current_host.get() not in ("", urlsplit(context.current().config.public_url).hostname):
        facts["host"] = current_host.get()
    mail = Mail(recipient=recipient, template=template, encrypted_context=messages.dump_facts(facts))
    session.add(mail)
    session.flush()
    on_commit(lambda: jobs.enqueue_call("worker.tasks.mail.send", mail.id))
    return mail


def add_addresses(facts: dict[str, Any], brand: BrandIdentity) -> dict[str, Any]:
    """Return the facts with complete links. A link that is no path was recorded by an earlier version."""
    links = {name: facts[name] for name in LINK_FACTS if str(facts.get(name, "")).startswith("/")}
    return facts | {name: f"{brand.url}{path}" for name, path in links.items()}


def render_template(template: str, language: str, facts: dict[str, Any]) -> str:
    """Return subject and text of a built-in template. The first line is the subject."""
    return get_template_environment(language).get_template(f"{template}.txt").render(facts)


def compose(
    mail: Mail, facts: dict[str, Any], language: str, brand: BrandIdentity, text: str | None = None
) -> EmailMessage:
    """Return the message to send. `facts` have complete links; `text` replaces the one of the built-in template. The
    Message-ID comes from the row, so that receivers can detect duplicates."""
    subject, _, body = (text or render_template(mail.template, language, facts)).strip().partition("\n")
    message = EmailMessage()
    message["Subject"] = " ".join(subject.split())
    message["From"] = sender = brand.build_sender(context.current().config)
    message["To"] = mail.recipient
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = f"<{mail.id}@{sender.rpartition('@')[2].rstrip('>')}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body.strip() + "\n")
    layout = get_template_environment(language).get_template("layout.html")
    page = layout.render(subject=message["Subject"], paragraphs=split_paragraphs(body), brand=brand, language=language)
    message.add_alternative(page, subtype="html")
    return message


def split_paragraphs(body: str) -> list[tuple[str, re.Match[str] | None]]:
    """Return the paragraphs of a mail, each with the match of its `label` and `url` if it is a button."""
    return [(part, BUTTON_PATTERN.fullmatch(part)) for part in re.split(r"\n\s*\n", body.strip())]

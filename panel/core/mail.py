"""Mails: a row is recorded in the transaction, and a worker is notified after its commit.

    mail.send(account.email, "invitation", team="Ada's", link=mail.build_page_url("/invitation/…"))

A mail is one text file in templates/mail/: the subject, an empty line, paragraphs. A paragraph `label: https://…`
becomes a button of the HTML part. A mail is written in its recipient's language if the panel knows it, else in that of
the request that caused it, else in English. The row is authoritative, as with tasks: after a lost notification or while
the mail server is unavailable, the mail is late, not lost.
"""

import re
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache, partial
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from panel.core import context, formatting, jobs, messages
from panel.core.config import ROOT
from panel.core.db import on_commit, session
from panel.core.languages import DEFAULT_LANGUAGE, current_language, load_translations
from panel.models import Mail

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
    environment.filters["localize_number"] = partial(formatting.localize_number, language=language)
    return environment


def format_exact_time(text: str, zone: str, language: str) -> str:
    """Return a moment among a mail's facts, which JSON keeps in ISO format, in the recipient's time zone."""
    try:
        return formatting.format_datetime(datetime.fromisoformat(text), zone, language)
    except ValueError:
        return text  # of a mail that an earlier version recorded


def build_page_url(path: str) -> str:
    """Return the public URL of a page. Never built from the request, whose Host header the client controls."""
    return context.current().config.public_url.rstrip("/") + path


def send(recipient: str, template: str, **facts: Any) -> Mail:
    """Record a mail and have it sent after the commit. `facts` must be serializable as JSON; they are stored
    encrypted."""
    language = current_language.get()
    get_template_environment(language).get_template(
        f"{template}.txt"
    )  # fail here, not in the worker, for a misspelt name
    if language != DEFAULT_LANGUAGE:
        facts["language"] = language
    mail = Mail(recipient=recipient, template=template, encrypted_context=messages.dump_facts(facts))
    session.add(mail)
    session.flush()
    on_commit(lambda: jobs.enqueue_call("worker.tasks.mail.send", mail.id))
    return mail


def compose(mail: Mail, facts: dict[str, Any], language: str | None = None) -> EmailMessage:
    """Return the message to send, by default in the language of the request that caused it. Its Message-ID comes from
    the row, so that receivers can detect duplicates."""
    config, language = context.current().config, language or mail.facts.get("language", DEFAULT_LANGUAGE)
    environment = get_template_environment(language)
    text = environment.get_template(f"{mail.template}.txt").render(config=config, **facts)
    subject, _, body = text.strip().partition("\n")
    message = EmailMessage()
    message["Subject"] = " ".join(subject.split())
    message["From"] = config.mail_from
    message["To"] = mail.recipient
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = f"<{mail.id}@{config.mail_from.rpartition('@')[2].rstrip('>')}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body.strip() + "\n")
    paragraphs = [(part, BUTTON_PATTERN.fullmatch(part)) for part in re.split(r"\n\s*\n", body.strip())]
    layout = environment.get_template("layout.html")
    page = layout.render(subject=message["Subject"], paragraphs=paragraphs, config=config, language=language)
    message.add_alternative(page, subtype="html")
    return message

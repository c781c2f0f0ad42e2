"""Subjects and texts of mails that operators write, for each kind of mail and language.

Placeholders are replaced by values and nothing else is evaluated, so a text cannot read anything of the panel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import structlog
from sqlalchemy import select

from panel.core import formatting, mail, messages
from panel.core.brand_identity import BrandIdentity
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.languages import list_languages, load_translations
from panel.core.messages import Message, message
from panel.models import MailTemplate
from panel.services import brands, placeholders

log = structlog.get_logger()
ID_NAMESPACE = UUID("5a0f3f0e-6f1c-4f0e-9a55-1f3a3d1b7a10")
GENERAL_PLACEHOLDERS = ("brand", "url")
MULTILINE_PLACEHOLDERS = ("text",)
NUMBER_SENTINEL = 600_613
"""A number that no text contains. The built-in texts choose singular or plural by a number."""
NUMBERS = ("minutes", "days")
EXAMPLE_PATH = "/example"
EXAMPLE_PERSON = {"email": "ada@example.com"}
EXAMPLE_SOURCE = {
    "browser": "Firefox (Linux)",
    "ip": "203.0.113.9",
    "at": "2026-01-02T03:04:05+00:00",
    "link": EXAMPLE_PATH,
}
EXAMPLE_ALERT = {
    "name": "Busy web servers",
    "resource": "web-1",
    "condition": "CPU usage > 90 %",
    "value": "97.5 %",
    "link": EXAMPLE_PATH,
}


@dataclass(frozen=True)
class MailKind:
    """A kind of mail: its built-in template, and its placeholders with examples."""

    label: Message
    template: str
    examples: Mapping[str, Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Facts that select a part of the built-in template."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        return *self.examples, *GENERAL_PLACEHOLDERS


def alert_kind(label: Message, kind: str, examples: Mapping[str, Any] = EXAMPLE_ALERT) -> MailKind:
    return MailKind(label, "alert", examples, {"kind": kind})


KINDS = {
    "password_reset": MailKind(
        message("Password reset"), "password_reset", {**EXAMPLE_PERSON, "link": EXAMPLE_PATH, "minutes": 60}
    ),
    "invitation": MailKind(
        message("Invitation to a team"),
        "invitation",
        {"owner": "grace@example.com", "inviter": "grace@example.com", "link": EXAMPLE_PATH, "days": 7},
    ),
    "new_device": MailKind(message("Sign-in with a new browser"), "new_device", EXAMPLE_PERSON | EXAMPLE_SOURCE),
    "security_changed": MailKind(
        message("Security setting changed"),
        "security_changed",
        {"what": "Your password was changed"} | EXAMPLE_PERSON | EXAMPLE_SOURCE,
    ),
    "inbox": MailKind(
        message("Inbox message"),
        "inbox",
        {
            "title": "Task failed",
            "text": "Starting web-1 failed.",
            "link": EXAMPLE_PATH,
            "preferences_link": EXAMPLE_PATH,
        },
    ),
    "alert_firing": alert_kind(message("Alert"), "firing"),
    "alert_resolved": alert_kind(message("Alert resolved"), "resolved"),
    "alert_reminder": alert_kind(message("Alert reminder"), "reminder"),
    "alert_test": alert_kind(message("Test of a notification channel"), "test", {"link": EXAMPLE_PATH}),
}


@dataclass(frozen=True)
class MailText:
    """Subject and text of a kind of mail in a language: the operators' or the built-in ones."""

    kind: str
    language: str
    subject: str
    text: str
    is_custom: bool = False
    updated_at: datetime | None = None

    @property
    def id(self) -> str:
        return str(uuid5(ID_NAMESPACE, f"{self.kind}.{self.language}"))

    @property
    def label(self) -> Message:
        return KINDS[self.kind].label

    @property
    def placeholders(self) -> tuple[str, ...]:
        return KINDS[self.kind].placeholders


def list_all() -> list[MailText]:
    """Return all kinds of mails in all languages."""
    rows = {(row.kind, row.language): row for row in session.scalars(select(MailTemplate))}
    return [build_text(kind, language, rows.get((kind, language))) for kind in KINDS for language in list_languages()]


def get(template_id: str) -> MailText:
    text = next((text for text in list_all() if text.id == template_id), None)
    if text is None:
        raise NotFound(message("No such mail template."))
    return text


def build_text(kind: str, language: str, row: MailTemplate | None) -> MailText:
    if row is None:
        return MailText(kind, language, *build_default(kind, language))
    return MailText(kind, language, row.subject, row.text, True, row.updated_at)


def build_default(kind: str, language: str) -> tuple[str, str]:
    """Return the built-in subject and text, with placeholders in place of values."""
    facts = {name: NUMBER_SENTINEL if name in NUMBERS else f"{{{name}}}" for name in KINDS[kind].examples}
    rendered = mail.render_template(KINDS[kind].template, language, facts | dict(KINDS[kind].constants))
    for name in NUMBERS:
        if name in facts:
            rendered = rendered.replace(str(NUMBER_SENTINEL), f"{{{name}}}")
    subject, _, text = rendered.strip().partition("\n")
    return subject.strip(), text.strip()


def find_row(kind: str, language: str) -> MailTemplate | None:
    return session.scalar(select(MailTemplate).where(MailTemplate.kind == kind, MailTemplate.language == language))


def update(template_id: str, **changes: str | None) -> MailText:
    """Set subject or text; None stands for the built-in one. Raise Invalid for an unknown or a missing placeholder."""
    current = get(template_id)
    default_subject, default_text = build_default(current.kind, current.language)
    subject = changes.get("subject", current.subject) or default_subject
    text = (changes.get("text", current.text) or default_text).strip()
    ensure_valid(current.kind, subject, text)
    row = find_row(current.kind, current.language)
    if (subject, text) == (default_subject, default_text):
        if row:
            session.delete(row)
        session.flush()
        return build_text(current.kind, current.language, None)
    row = row or MailTemplate(kind=current.kind, language=current.language)
    row.subject, row.text = subject, text
    session.add(row)
    session.flush()
    return build_text(current.kind, current.language, row)


def ensure_valid(kind: str, subject: str, text: str) -> None:
    """Raise Invalid when a placeholder is unknown, or the link is missing without which the mail is of no use."""
    for error_field, value in (("subject", subject), ("text", text)):
        placeholders.ensure_valid(error_field, value, KINDS[kind].placeholders)
    if "link" not in placeholders.list_used(text):
        sentence = message("The text needs the placeholder {name}.", name="{link}")
        raise Invalid(sentence, text=sentence)


def preview(kind: str, language: str, subject: str, text: str) -> tuple[str, str]:
    """Return subject and text as a mail with example values has them."""
    brand = brands.get_current()
    values = build_values(kind, mail.add_addresses(dict(KINDS[kind].examples), brand), language, brand)
    return fill(subject, text, values)


def fill(subject: str, text: str, values: Mapping[str, str]) -> tuple[str, str]:
    return " ".join(placeholders.fill(subject, values).split()), placeholders.fill(text, values)


def render_custom(template: str, facts: Mapping[str, Any], language: str, brand: BrandIdentity) -> str | None:
    """Return subject and text of a mail as operators have written them; None if they have not, or if it fails."""
    kind = f"alert_{facts.get('kind')}" if template == "alert" else template
    try:
        row = find_row(kind, language) if kind in KINDS else None
        if row is None:
            return None
        return "\n\n".join(fill(row.subject, row.text, build_values(kind, facts, language, brand)))
    except (KeyError, ValueError, TypeError) as error:  # the built-in text is sent instead
        log.warning("mail_template_failed", template=kind, language=language, error=repr(error))
        return None


def build_values(kind: str, facts: Mapping[str, Any], language: str, brand: BrandIdentity) -> dict[str, str]:
    """Return the values of the placeholders as the built-in text would show them."""
    translations = load_translations(language)
    values = {"brand": brand.name, "url": brand.url}
    for name in KINDS[kind].examples:
        value = str(messages.translate_with(facts[name], translations=translations))
        if name == "at":
            value = mail.format_exact_time(value, facts.get("zone", "UTC"), language)
        elif name in ("condition", "value"):
            value = formatting.localize_number(value, language)
        values[name] = value if name in MULTILINE_PLACEHOLDERS else " ".join(value.split())
    return values

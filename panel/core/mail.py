"""Mails: a row now, a bell for a worker once the transaction has committed.

    mail.send(account.email, "invitation", team="Ada's", link=mail.address("/invitation/…"))

A mail is one text file below templates/mail/: the subject, an empty line, paragraphs. A paragraph `words: https://…`
becomes a button of the HTML part. The row is the truth, as with tasks: a lost bell or a mail server that is away costs
time, never the mail.
"""

import json
import re
from email.message import EmailMessage
from email.utils import format_datetime

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from panel.core import jobs
from panel.core.config import ROOT, Config
from panel.core.db import on_commit, session
from panel.models import Mail
from panel.web import formatting

config: Config | None = None
BUTTON_PATTERN = re.compile(r"(?P<label>[^\n]+): (?P<url>https?://\S+)")

environment = Environment(
    loader=FileSystemLoader(ROOT / "templates" / "mail"),
    autoescape=lambda name: name.endswith(".html"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def configure(settings: Config):
    """Names the installation that mails come from."""
    global config
    config = settings


def page_url(path):
    """A page's address as people outside may open it. Never from the request: its Host header is the client's."""
    return config.public_url.rstrip("/") + path


def send(recipient, template, **facts):
    """Has a mail sent after the commit. `facts` must be JSON; they are kept encrypted until then."""
    environment.get_template(f"{template}.txt")  # a misspelt name must not wait for the worker
    mail = Mail(recipient=recipient, template=template, sealed=json.dumps(facts))
    session.add(mail)
    session.flush()
    on_commit(lambda: jobs.enqueue_call("worker.tasks.mail.send", mail.id))
    return mail


def compose(mail: Mail, facts) -> EmailMessage:
    """The mail as it goes out. Its id is the row's: one that is sent twice can be known as one."""
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
    message.add_alternative(render_html(message["Subject"], body.strip()), subtype="html")
    return message


def render_html(subject, body):
    paragraphs = [(part, BUTTON_PATTERN.fullmatch(part)) for part in re.split(r"\n\s*\n", body)]
    return environment.get_template("layout.html").render(subject=subject, paragraphs=paragraphs, config=config)


environment.filters["exact"] = formatting.format_datetime

"""Telling people by mail what happened to their account: whoever took it over cannot stop the mail."""

from typing import NamedTuple

from panel.core import clock, mail
from panel.services.known_devices import called
from panel.web import formatting


class Source(NamedTuple):
    """Where a request came from."""

    ip: str
    user_agent: str = ""


def changed(account, what, source: Source):
    """`what` is the sentence that says what was changed."""
    tell(account, "security_changed", source, what=what)


def new_device(account, source: Source):
    tell(account, "new_device", source)


def tell(account, template, source, **facts):
    mail.send(
        account.email,
        template,
        email=account.email,
        browser=called(source.user_agent),
        ip=source.ip,
        at=formatting.exact(clock.now(), account.timezone),
        link=mail.address("/profile/security"),
        **facts,
    )

"""Mails and messages about changes of an account's security. Somebody who took over the account cannot prevent them."""

from typing import Any, NamedTuple

from panel.core import clock, mail
from panel.core.messages import message
from panel.models import Account
from panel.services.inbox.reports import report_security_event
from panel.services.known_devices import describe_user_agent


class Source(NamedTuple):
    """Where a request came from."""

    ip: str
    user_agent: str = ""


def send_setting_change(account: Account, sentence: str, source: Source) -> None:
    """Tell the person that a setting was changed. `sentence` describes the change."""
    send(account, "security_changed", source, what=sentence)
    report(account, sentence, source)


def send_new_device(account: Account, source: Source) -> None:
    send(account, "new_device", source)
    report(account, message("Somebody signed in with a browser that is new to your account"), source)


def report(account: Account, sentence: str, source: Source) -> None:
    report_security_event(account, sentence, ip=source.ip, browser=describe_user_agent(source.user_agent))


def send(account: Account, template: str, source: Source, **facts: Any) -> None:
    mail.send(
        account.email,
        template,
        email=account.email,
        browser=describe_user_agent(source.user_agent),
        ip=source.ip,
        at=clock.now(),
        zone=account.timezone,
        link="/profile/security",
        **facts,
    )

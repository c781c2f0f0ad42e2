"""Invitations to a team. The link in the mail works once, for seven days.

The inviter does not learn whether the address has an account: the response is the same, and the page of the link
explains what to do.
"""

import secrets
from collections.abc import Collection
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from panel.core import clock, mail
from panel.core.db import count_changed, session
from panel.core.errors import Conflict, Invalid, NotFound, TooMany
from panel.core.messages import message
from panel.models import Account, Member
from panel.models.team import INVITATION_TTL
from panel.ratelimit import windows
from panel.services import accounts, team
from panel.services.access import Access
from panel.services.inbox.reports import report_invitation, report_new_member
from panel.services.tokens import hash_secret

MAX_OPEN_INVITATIONS = 100
"""Open invitations of one team."""
INVITATION_MAILS_PER_MINUTE = 10
"""Mails of one team, so that the panel cannot be used to fill other people's mailboxes."""
INVITATION_CLOSED_MESSAGE = message("This invitation was accepted, has expired or is incomplete. Ask for a new one.")


def invite(
    access: Access,
    *,
    email: str,
    role_id: str,
    reach: str = "all",
    project_ids: Collection[str] = (),
    resource_ids: Collection[str] = (),
) -> Member:
    """Create an invited member and mail the link."""
    email = email.strip().lower()
    owner = session.get_one(Account, access.id)
    if email == owner.email or session.scalar(team.listing(access).where(Member.email == email)):
        raise Invalid(
            message("This person is already in the team."), email=message("This person is already in the team.")
        )
    open_count = select(func.count()).where(Member.owner_id == access.id, Member.account_id.is_(None))
    if session.scalars(open_count).one() >= MAX_OPEN_INVITATIONS:
        raise Invalid(
            message("{maximum} invitations are open. Withdraw some of them first.", maximum=MAX_OPEN_INVITATIONS)
        )
    member = Member(
        owner_id=access.id,
        email=email,
        role=team.get_grantable_role(access, role_id),
        invited_at=clock.now(),
        owner=owner,
    )
    team.set_reach(access, member, reach, project_ids, resource_ids)
    session.add(member)
    send_mail(access, member)
    invited_id = session.scalar(select(Account.id).where(Account.email == email))
    if invited_id:
        report_invitation(member, invited_id)
    return member


def resend(access: Access, member: Member) -> Member:
    """Mail a new link. The old one becomes invalid."""
    if member.account_id:
        raise Conflict(message("The invitation was already accepted."), reason="already_accepted")
    member.invited_at = clock.now()
    send_mail(access, member)
    return member


def send_mail(access: Access, member: Member) -> None:
    window = windows.count_use("invitations", access.id, INVITATION_MAILS_PER_MINUTE)
    if not window.allowed:
        raise TooMany(
            message("Too many invitations. Wait {reset} seconds and try again.", reset=window.reset),
            seconds=window.reset,
        )
    secret = secrets.token_urlsafe(32)
    member.invitation_hash = hash_secret(secret)
    session.flush()
    mail.send(
        member.email,
        "invitation",
        owner=member.owner.email,
        inviter=access.email,
        brand_id=member.owner.brand_id,
        link=f"/invitation/{secret}",
        days=INVITATION_TTL.days,
    )


def get_open(secret: str) -> Member:
    """Return the invitation of a link that can still be accepted."""
    member = session.scalar(select(Member).where(Member.invitation_hash == hash_secret(secret)))
    if member is None or member.status != "invited":
        raise NotFound(INVITATION_CLOSED_MESSAGE)
    return member


def accept(secret: str, **facts: Any) -> Account:
    """Create the invited person's account, with the chosen name and password, and add it to the team."""
    member = get_open(secret)
    try:
        with session.begin_nested():
            account = accounts.create(email=member.email, brand_id=member.owner.brand_id, **facts)
            return complete(member, account)
    except IntegrityError:  # a concurrent request used the link first
        raise NotFound(INVITATION_CLOSED_MESSAGE) from None


def join(secret: str, account: Account) -> Account:
    """Add an existing account to the team. Only the account with the invited email address may join."""
    member = get_open(secret)
    error = join_error(member, account)
    if error:
        raise Conflict(error, reason="cannot_join")
    return complete(member, account)


def complete(member: Member, account: Account) -> Account:
    """Use the invitation up. Of two concurrent requests one succeeds."""
    query = update(Member).where(Member.id == member.id, Member.account_id.is_(None))
    if not count_changed(query.values(account_id=account.id, invitation_hash=None)):
        raise NotFound(INVITATION_CLOSED_MESSAGE)
    session.expire(member)
    report_new_member(member)
    return account


def join_error(member: Member, account: Account) -> str | None:
    """Return why the account cannot join, as a sentence, or None."""
    if account.email != member.email:
        return message(
            "The invitation is for {email}, and you are signed in as {own_email}. Sign out first.",
            email=member.email,
            own_email=account.email,
        )
    if account.is_admin:
        return message("Operators of the panel do not join a team. Ask to be invited with another address.")
    if session.scalar(select(Member.id).where(Member.account_id == account.id)):
        return message("You are already in a team, and you can be in only one. Ask that team to remove you first.")
    owned = accounts.describe_owned_resources(account)
    if owned:
        return message(
            "Your account has {owned} of its own, and a member works on the team's. Ask to be invited with"
            " another address, or remove that first.",
            owned=owned,
        )
    return None

"""`panel user`: create accounts, and reset passwords and second factors."""

import click

from panel.cli.context import audited_context
from panel.cli.prompts import PromptedOption
from panel.core.errors import Problem
from panel.schemas.constants import OPERATOR_ROLES
from panel.services import accounts, audit, factors, passwords
from panel.services.security_notifications import Source

LOCAL_SOURCE = Source("the panel's own machine")


@click.group()
def command():
    """Create accounts, set passwords and reset second factors."""


@command.command()
@click.option("--email", cls=PromptedOption)
@click.option("--password", prompt=True, hide_input=True, confirmation_prompt=True)
@click.option(
    "--operator",
    is_flag=False,
    flag_value="full",
    type=click.Choice(OPERATOR_ROLES),
    help="Make the account an operator with this role (full if you give none).",
)
def create(email, password, operator):
    """Create an account."""
    with audited_context():
        account = accounts.create(email=email, password=password, operator_role=operator)
    click.echo(f"{account.email} can sign in.")


@command.command()
@click.option("--email", cls=PromptedOption)
@click.option("--password", prompt=True, hide_input=True, confirmation_prompt=True)
def password(email, password):
    """Set a new password for an account and end its sessions."""
    with audited_context():
        passwords.change(get_account(email), password, LOCAL_SOURCE)
    click.echo("Password set.")


@command.command("reset-factors")
@click.option("--email", cls=PromptedOption)
def reset_factors(email):
    """Remove all second factors of an account, so that its password is enough to sign in."""
    with audited_context():
        factors.reset(get_account(email), LOCAL_SOURCE)
    click.echo("Authenticator, passkeys and recovery codes removed.")


def get_account(email):
    account = accounts.find_by_email(email)
    if account is None:
        raise Problem(f"No account has the email address {email}.")
    audit.track(account)  # audited as the command's object, also when only related rows change
    return account

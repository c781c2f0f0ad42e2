"""`panel user`: accounts, from the machine itself."""

import click

from panel.cli.installation import opened
from panel.errors import Problem
from panel.services import accounts


@click.group()
def command():
    """Make accounts and set passwords."""


@command.command()
@click.option("--email", prompt=True)
@click.option("--password", prompt=True, hide_input=True, confirmation_prompt=True)
@click.option("--operator", is_flag=True, help="May also run the platform.")
def create(email, password, operator):
    """Make an account that can sign in."""
    with opened():
        made = accounts.create(email=email, password=password, operator_role="full" if operator else None)
    click.echo(f"{made.email} can sign in.")


@command.command()
@click.option("--email", prompt=True)
@click.option("--password", prompt=True, hide_input=True, confirmation_prompt=True)
def password(email, password):
    """Set the password of somebody who lost it."""
    with opened():
        accounts.set_password(known(email), password)
    click.echo("The password was set.")


def known(email):
    found = accounts.by_email(email)
    if found is None:
        raise Problem(f"Nobody has the email address {email}.")
    return found

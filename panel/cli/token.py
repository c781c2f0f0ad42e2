"""`panel token`: makes, lists and revokes bearer tokens. A value is printed once; only its hash is kept."""

import ipaddress

import click

from panel.auth import permissions
from panel.cli.installation import acting, opened
from panel.cli.user import known
from panel.db import session
from panel.errors import Problem
from panel.services import tokens


class Address(click.ParamType):
    """One IP address."""

    name = "address"

    def convert(self, value, param, ctx):
        try:
            found = ipaddress.ip_address(value.strip())
        except ValueError:
            network = "/" in value and " A network will not do: the token is bound to one address."
            self.fail(f"{value} is no IP address.{network or ''}", param, ctx)
        return str(getattr(found, "ipv4_mapped", None) or found)


@click.group()
def command():
    """Make, list and revoke API tokens."""


@command.command()
@click.option("--ip", prompt="IP address that may use it", type=Address(), help="The only address that may use it.")
@click.option("--name", prompt=True)
@click.option("--description", prompt=True, default="")
def admin(**facts):
    """A token for the admin API, bound to an address."""
    issue("admin", **facts)


@command.command()
@click.option("--ip", prompt="IP address that may use it", type=Address(), help="The only address that may use it.")
@click.option("--name", prompt=True)
@click.option("--description", prompt=True, default="")
def billing(**facts):
    """A token for the billing system, bound to an address."""
    issue("billing", **facts)


def issue(kind, ip, name, description):
    with acting():
        show(tokens.issue(kind, name=name, description=description, allowed_ips=[ip])[1])


@command.command()
@click.option("--email", required=True, help="Whose token.")
@click.option("--scopes", help="Comma-separated; every scope when not given.")
@click.option("--name", default="command line")
def user(email, scopes, name):
    """A token that acts for a customer in the user API."""
    wanted = scopes.split(",") if scopes else permissions.USER
    if unknown := set(wanted) - set(permissions.USER):
        raise Problem(f"No such scope: {', '.join(sorted(unknown))}. There are: {', '.join(permissions.USER)}.")
    with acting():
        show(tokens.issue("user", name=name, account=known(email), scopes=wanted)[1])


def show(value):
    """Only the value goes to standard output, so that a script can keep it."""
    click.echo("The token, shown this once:", err=True)
    click.echo(value)


@command.command("list")
def show_all():
    """The tokens of the admin and billing APIs."""
    with opened():
        for token in tokens.freshen(session.scalars(tokens.platform()).all()):
            used = f"last used {token.last_used_at:%Y-%m-%d %H:%M} UTC" if token.last_used_at else "never used"
            about = f"{token.name}: {token.description}" if token.description else token.name
            click.echo("  ".join((token.id, token.kind, token.state, *token.allowed_ips, used, about)))


@command.command()
@click.argument("token_id")
def revoke(token_id):
    """End a token of any kind, by its id. It is dead from the next request on."""
    with acting():
        token = tokens.get_any(token_id)
        tokens.revoke(token)
    click.echo(f"The token {token.name} is revoked.")

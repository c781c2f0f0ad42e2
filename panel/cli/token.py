"""`panel token`: create, list and revoke bearer tokens. A value is printed once; only its hash is stored."""

import ipaddress

import click

from panel.auth import permissions
from panel.cli.context import app_context, audited_context
from panel.cli.prompts import PromptedOption
from panel.cli.user import get_account
from panel.core.db import session
from panel.core.errors import Problem
from panel.services import tokens


class Address(click.ParamType):
    """The type of an option with one IP address."""

    name = "address"

    def convert(self, value, param, ctx):
        try:
            ip = ipaddress.ip_address(value.strip())
        except ValueError:
            network = "/" in value and " A token is bound to one address, not to a network."
            self.fail(f"{value} is not an IP address.{network or ''}", param, ctx)
        return str(getattr(ip, "ipv4_mapped", None) or ip)


def validate_name(ctx, param, value):
    """Return the stripped name. Raise click.BadParameter when it is empty, because tokens are listed by name."""
    if not value.strip():
        raise click.BadParameter("Enter a name.")
    return value.strip()


def platform_token_options(function):
    """Add the options of platform tokens to a command. Each is prompted for at a terminal."""
    ip_help = "The only IP address that can use the token. Without a terminal it defaults to this machine."
    ip_options = {"prompt": "IP address that can use it", "type": Address(), "otherwise": "127.0.0.1", "help": ip_help}
    for option in (
        click.option("--description", cls=PromptedOption, default="", otherwise=""),
        click.option("--name", cls=PromptedOption, otherwise="command line", callback=validate_name),
        click.option("--ip", cls=PromptedOption, **ip_options),
    ):
        function = option(function)
    return function


@click.group()
def command():
    """Create, list and revoke API tokens."""


@command.command()
@platform_token_options
def admin(**facts):
    """Create a token for the admin API, bound to one IP address."""
    issue_platform_token("admin", **facts)


@command.command()
@platform_token_options
def billing(**facts):
    """Create a token for the billing API, bound to one IP address."""
    issue_platform_token("billing", **facts)


def issue_platform_token(kind, ip, name, description):
    with audited_context():
        print_token(tokens.issue(kind, name=name, description=description, allowed_ips=[ip])[1])


@command.command()
@click.option("--email", required=True, help="Email address of the customer.")
@click.option("--scopes", help="Comma-separated. Default: all scopes.")
@click.option("--name", default="command line", callback=validate_name)
def user(email, scopes, name):
    """Create a token for the user API that acts for a customer."""
    requested = scopes.split(",") if scopes else permissions.USER_SCOPES
    if unknown := set(requested) - set(permissions.USER_SCOPES):
        raise Problem(f"Unknown scope: {', '.join(sorted(unknown))}. Available: {', '.join(permissions.USER_SCOPES)}.")
    with audited_context():
        print_token(tokens.issue("user", name=name, account=get_account(email), scopes=requested)[1])


def print_token(value):
    """Print a token's value. Only the value goes to standard output, so that a script can store it."""
    click.echo("The token (shown only once):", err=True)
    click.echo(value)


@command.command("list")
def show_all():
    """List the tokens of the admin and billing APIs."""
    with app_context():
        for token in tokens.refresh_last_used(session.scalars(tokens.select_platform()).all()):
            last_used = f"last used {token.last_used_at:%Y-%m-%d %H:%M} UTC" if token.last_used_at else "never used"
            label = f"{token.name}: {token.description}" if token.description else token.name
            click.echo("  ".join((token.id, token.kind, token.state, *token.allowed_ips, last_used, label)))


@command.command()
@click.argument("token_id")
def revoke(token_id):
    """Revoke a token of any kind by its id. It stops working at once."""
    with audited_context():
        token = tokens.get_any_owner(token_id)
        tokens.revoke(token)
    click.echo(f"Token {token.name} revoked.")

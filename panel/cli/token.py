"""`panel token`: makes bearer tokens. The value is printed once; only its hash is kept."""

import ipaddress

import click

from panel.auth import permissions
from panel.cli.installation import opened
from panel.cli.user import known
from panel.errors import Problem
from panel.services import tokens


class Network(click.ParamType):
    """One IP address, or a network in CIDR notation."""

    name = "address"

    def convert(self, value, param, ctx):
        try:
            return str(ipaddress.ip_network(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group()
def command():
    """Make API tokens."""


@command.command()
@click.option("--ip", prompt="IP address that may use it", type=Network(), help="The only address that may use it.")
@click.option("--name", prompt=True)
@click.option("--description", prompt=True, default="")
def admin(**facts):
    """A token for the admin API, bound to an address."""
    issue("admin", **facts)


@command.command()
@click.option("--ip", prompt="IP address that may use it", type=Network(), help="The only address that may use it.")
@click.option("--name", prompt=True)
@click.option("--description", prompt=True, default="")
def billing(**facts):
    """A token for the billing system, bound to an address."""
    issue("billing", **facts)


def issue(kind, ip, name, description):
    with opened():
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
    with opened():
        show(tokens.issue("user", name=name, account=known(email), scopes=wanted)[1])


def show(value):
    """Only the value goes to standard output, so that a script can keep it."""
    click.echo("The token, shown this once:", err=True)
    click.echo(value)

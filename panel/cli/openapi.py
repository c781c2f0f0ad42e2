"""`panel openapi`: write and check the OpenAPI documents."""

import json

import click

from api.docs import build_openapi_document
from panel.app import create_app
from panel.core.config import ROOT, Config

OPENAPI_FOLDER = ROOT / "api" / "openapi"


@click.group()
def command():
    """Generate the OpenAPI documents, or check the committed ones."""


@command.command()
def write():
    """Generate the documents."""
    OPENAPI_FOLDER.mkdir(exist_ok=True)
    for file, text in build_documents():
        file.write_text(text)
        click.echo(file.relative_to(ROOT))


@command.command()
def check():
    """Fail if a committed document does not match the code."""
    for file, text in build_documents():
        if not file.exists() or file.read_text() != text:
            raise click.ClickException(f"{file.relative_to(ROOT)} is out of date: run `panel openapi write`.")


def build_documents():
    app = create_app(Config(secret_key="not used", redis_url="redis://"))
    for surface in app.extensions["openapi"]:
        text = json.dumps(build_openapi_document(app, surface), indent=1, ensure_ascii=False)
        yield OPENAPI_FOLDER / f"{surface.lower()}.json", text + "\n"

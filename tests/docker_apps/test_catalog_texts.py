"""The texts of the catalog of apps are translated like those of the code."""

from babel.messages.pofile import read_po

from panel.core.languages import TRANSLATIONS_FOLDER
from panel.core.messages import Message
from panel.services import docker_apps


def test_catalog_texts_are_extracted_messages():
    with open(TRANSLATIONS_FOLDER / "messages.pot", "rb") as template:
        extracted = {entry.id for entry in read_po(template) if isinstance(entry.id, str)}
    apps = docker_apps.listing()
    texts = [text for app in apps for text in (app.description, app.category)]
    texts += [text for app in apps for variable in app.variables for text in (variable.label, variable.description)]
    assert all(isinstance(text, Message) for text in texts)
    assert set(texts) <= extracted

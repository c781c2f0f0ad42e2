"""The catalogs of the languages besides English are complete."""

from babel.messages.catalog import Catalog

from panel.core.languages import TRANSLATIONS_FOLDER, list_languages
from tests.support.catalog_problems import list_problems, read_catalog


def make_catalog(translations, *, locale=None):
    catalog = Catalog(locale=locale)
    for text, translation in translations.items():
        catalog.add(text, translation)
    return catalog


def test_catalogs_have_translation_of_every_text():
    """Fill in what `make messages` has left empty in panel/translations/LANGUAGE/LC_MESSAGES/messages.po."""
    template = read_catalog(TRANSLATIONS_FOLDER / "messages.pot")
    for language in list_languages()[1:]:
        path = TRANSLATIONS_FOLDER / language / "LC_MESSAGES" / "messages.po"
        problems = list_problems(template, read_catalog(path, language))
        assert not problems, "\n".join(
            [f"{path}: {len(problems)} texts to correct, run make messages first", *problems]
        )


def test_problems_of_translations_are_listed():
    row, tag, half = ("%(num)s row", "%(num)s rows"), "<b>%(name)s</b> of {size}", "50 %% of %(all)s"
    template = make_catalog(dict.fromkeys((row, tag, half, "Name", "Size", "New"), ""))
    good = {row: ("%(num)s Zeile", "%(num)s Zeilen"), tag: "{size} von <b>%(name)s</b>", half: "%(all)s: 50 %%"}
    good |= {"Name": "Name", "Size": "Größe", "New": "Neu"}
    template.add(("One row", "%(num)s rows"), "")
    good[("One row", "%(num)s rows")] = ("Eine Zeile", "%(num)s Zeilen")
    assert list_problems(template, make_catalog(good, locale="de")) == []
    bad = {row: ("%(num)s Zeile", ""), tag: "{size} von %(name)s", half: "%(all)s: 50 %", "Old": "Alt", "Name": ""}
    catalog = make_catalog({**good, **bad}, locale="de")
    catalog["Size"].flags.add("fuzzy")
    catalog.delete("New")
    assert list_problems(template, catalog) == [
        "fuzzy: Size",
        "missing: %(num)s row",
        "missing: Name",
        "missing: New",
        "obsolete: Old",
        "other HTML tags: <b>%(name)s</b> of {size}",
        "other placeholders or percent signs: 50 %% of %(all)s",
    ]

"""Translations of the texts of the skeleton that `make new-resource` writes, so that its catalogs are complete."""

TRANSLATIONS = {
    "de": {
        "Add sample thing": "Sample thing hinzufügen",
        "Apply sample thing": "Sample thing anwenden",
        "Applying the sample thing": "Sample thing wird angewendet",
        "Delete the sample thing %(name)s?": "Sample thing %(name)s löschen?",
        "No sample thing yet": "Sample things: noch keine",
        "No such sample thing.": "Sample thing nicht gefunden.",
        "Sample thing %(name)s changed.": "Sample thing %(name)s geändert.",
        "Sample thing %(name)s created.": "Sample thing %(name)s erstellt.",
        "Sample thing %(name)s deleted.": "Sample thing %(name)s gelöscht.",
        "Sample things": "Sample things",
        "The sample thing was deleted.": "Sample thing wurde gelöscht.",
        "Your sample things are listed here.": "Sample things werden hier aufgelistet.",
    }
}
"""By language: the translation of each text that only the skeleton has. Names of things stay English in it."""

"""Views of both areas, written once."""

"""Files of the library: where they may be fetched from, and when they are."""

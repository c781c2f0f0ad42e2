"""The images of guests that come with the panel, built from Debian's packages."""

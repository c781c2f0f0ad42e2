"""Task kinds of destinations: the tests of this folder have faults of the server."""

KINDS_TESTED_HERE = {"backup_fingerprint"}

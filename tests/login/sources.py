"""The address and browser of a sign-in."""

from panel.services.security_notifications import Source

LOCAL_SOURCE = Source("127.0.0.1", "test")

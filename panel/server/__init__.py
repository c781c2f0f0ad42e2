"""The web server: uvicorn's event loop in front, Flask on threads behind it (docs/decisions/0004-web-server.md)."""

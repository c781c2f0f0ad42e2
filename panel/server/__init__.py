"""The web server: uvicorn's event loop accepts requests, Flask serves them on threads
(docs/decisions/0004-web-server.md)."""

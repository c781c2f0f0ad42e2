"""What browsers ask before a page sends a request to another host."""

from .http_messages import Request, Response


async def send_preflight(request: Request, response: Response, methods: str) -> None:
    """Allow browsers to send requests from any page; they need the access token as well."""
    headers = {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": request.headers.get("access-control-request-headers", "*"),
        "Access-Control-Max-Age": "7200",
    }
    await response.send(204, b"", headers)

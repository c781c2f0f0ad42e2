"""Browsers that open the panel at a host name."""

from functools import partial


def set_host(browser, host):
    """Let all requests of the browser have this Host header."""
    run = partial(type(browser).run_wsgi_app, browser)
    browser.run_wsgi_app = lambda environ, buffered=False: run({**environ, "HTTP_HOST": host}, buffered)
    return browser

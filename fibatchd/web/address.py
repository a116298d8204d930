"""Where a client reaches this server, for URLs in answers."""

from quart import request

from fibatchd.web.front import front


def base_url() -> str:
    """Return `server.public_url`, or else the scheme and host that the current request used, without a slash at the end.

    Behind a trusted proxy these are the client's own, for the front end has put them in place of the proxy's.
    """
    return front().context.config.server.public_url or request.host_url.rstrip("/")

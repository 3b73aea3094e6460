"""What may be shown of a database address: everything that locates the server, nothing that opens it."""

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

_SECRET = r"(?:password|passwd|sslpassword|secret|token)"
_HIDDEN = "***"
_CONNINFO_SECRET = re.compile(rf"\b({_SECRET}\s*=\s*)('(?:\\.|[^'\\])*'?|(?:\\.|[^\s'\\])+)", re.IGNORECASE)
_QUERY_SECRET = re.compile(rf"([?&]{_SECRET}=)[^&#\s]*", re.IGNORECASE)
_USERINFO = re.compile(r"([a-z][a-z0-9+.-]*://[^/?#\s:@]*):[^/?#\s]*@", re.IGNORECASE)
_USERINFO_ODD = re.compile(r"([a-z][a-z0-9+.-]*://[^\s:@/]*):[^\s@]*@", re.IGNORECASE)


def redact_url(url: str) -> str:
    """Hide every password in a URL, in a `key=value` conninfo string, or in a longer text that contains one."""
    for pattern in (_USERINFO, _USERINFO_ODD):
        url = pattern.sub(rf"\1:{_HIDDEN}@", url)
    url = _QUERY_SECRET.sub(rf"\1{_HIDDEN}", url)
    return _CONNINFO_SECRET.sub(rf"\1{_HIDDEN}", url)


def describe_url(url: str) -> str:
    """Name a server as `host:port/dbname`, from a URL or a conninfo string, without user and password."""
    if "://" not in url:
        return _place(dict(re.findall(r"(\w+)\s*=\s*'?([^\s']*)", redact_url(url))))
    try:
        return _place(_parts(urlsplit(url)))
    except ValueError:
        return redact_url(url)


def _parts(url: SplitResult) -> dict[str, str]:
    parts = {"dbname": url.path.lstrip("/")}
    if url.hostname:
        parts["host"] = url.hostname
    if url.port:
        parts["port"] = str(url.port)
    return parts | {key: value for key, value in parse_qsl(url.query) if key in ("host", "port", "dbname")}


def _place(parts: dict[str, str]) -> str:
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}".rstrip("/")

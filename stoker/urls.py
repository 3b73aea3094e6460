"""What may be shown of a database address: everything that locates the server, nothing that opens it."""

import re
from urllib.parse import parse_qsl, unquote

_SECRET = r"(?:password|passwd|sslpassword|oauth_client_secret)"
_HIDDEN = "***"
_CONNINFO_SECRET = re.compile(rf"\b({_SECRET}\s*=\s*)('(?:\\.|[^'\\])*'?|(?:\\.|[^\s'\\&])+)", re.IGNORECASE)
_SCHEME = r"([a-z][a-z0-9+.-]*://[^\s:@/?#]*):"
_USERINFO = (
    re.compile(rf"{_SCHEME}[^/?#\s]*@", re.IGNORECASE),
    re.compile(rf"{_SCHEME}[^\s@]*@", re.IGNORECASE),
    re.compile(rf"\A\s*{_SCHEME}[^@]*@", re.IGNORECASE),
)


def redact_url(url: str) -> str:
    """Hide every password in a URL, in a `key=value` conninfo string, or in a longer text that contains one.

    Passwords that should have been percent-encoded and were not are hidden too; when in doubt more is hidden.
    """
    for pattern in _USERINFO:
        url = pattern.sub(rf"\1:{_HIDDEN}@", url)
    return _CONNINFO_SECRET.sub(rf"\1{_HIDDEN}", url)


def describe_url(url: str) -> str:
    """Name a server as `host:port/dbname`, from a URL or a conninfo string, without user and password."""
    url = redact_url(url)
    pairs = _uri_pairs(url) if "://" in url else dict(re.findall(r"(\w+)\s*=\s*'?([^\s']*)", url))
    hosts = (pairs.get("host") or pairs.get("hostaddr") or "localhost").split(",")
    ports = (pairs.get("port") or "").split(",")
    ports += ports[-1:] * (len(hosts) - len(ports))
    places = ",".join(f"{_bracketed(host)}:{port or 5432}" for host, port in zip(hosts, ports, strict=False))
    return f"{places}/{pairs.get('dbname') or ''}".rstrip("/")


def _uri_pairs(url: str) -> dict[str, str]:
    authority, slash, rest = re.sub(r"^.*?://", "", url).partition("/")
    authority, _, query = authority.partition("?") if not slash else (authority, "", rest.partition("?")[2])
    hosts = [re.fullmatch(r"(\[[^]]*\]|[^:]*):?(.*)", host) for host in authority.rpartition("@")[2].split(",")]
    pairs = {
        "host": ",".join(unquote(host[1]) for host in hosts if host),
        "port": ",".join(host[2] for host in hosts if host),
        "dbname": unquote(rest.partition("?")[0]),
    }
    return pairs | {key: value for key, value in parse_qsl(query) if key in ("host", "hostaddr", "port", "dbname")}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host

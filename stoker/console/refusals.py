"""Errors that only the console raises, because only it reads what people type."""

from datetime import datetime

from stoker.errors import EnqueueInvalid, NaiveDatetime, PayloadInvalid, StokerError


class PayloadNotJson(PayloadInvalid):
    """The payload given on the command line is not JSON; nothing was enqueued."""

    def __init__(self, *, name: str, detail: str) -> None:
        self.fault = "not_json"
        StokerError.__init__(
            self,
            cause=f"The payload for job {name!r} is not JSON: {detail}.",
            fix=f"Quote it for the shell: stoker enqueue {name} '{{\"id\": 7}}'",
        )


class TimeUnreadable(EnqueueInvalid):
    """The time given on the command line is none; nothing was enqueued."""

    def __init__(self, *, name: str, value: str) -> None:
        super().__init__(name=name, argument="run_at", problem=f"{value[:80]!r} is not a time in ISO 8601")
        self.fix = "Write for example --run-at 2030-01-31T08:00:00Z, or --delay 5m."


class TimeWithoutZone(NaiveDatetime):
    """The time given on the command line has no zone; nothing was enqueued."""

    def __init__(self, *, value: datetime) -> None:
        super().__init__(argument="--run-at", value=value)
        self.fix = f"Add the zone: {value.isoformat()}Z for UTC, or an offset such as {value.isoformat()}+02:00."


class DatabaseRefused(StokerError):
    """PostgreSQL answered with an error that is not about being there or not."""

    code = "STOKER_DATABASE_REFUSED"

    def __init__(self, *, error: str) -> None:
        said = " ".join(error.split()).rstrip(".")
        super().__init__(
            cause=f"PostgreSQL refused: {said}.",
            fix="Use a database user with the rights this needs; stoker_read, stoker_enqueue and stoker_worker are "
            "roles to grant.",
        )

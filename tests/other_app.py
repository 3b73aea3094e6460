"""An application that knows one job only."""

from stoker import job


@job
def something_else(payload: dict) -> None:
    """Nothing."""

"""What makes a measurement worthless."""


class BenchFailed(Exception):
    """A figure could not be measured; the message says what happened instead."""

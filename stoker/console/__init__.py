"""The operator's console: the `stoker` command."""

from stoker.console.entry import main

__all__ = ["main"]

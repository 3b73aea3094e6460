"""How many workers one supervisor can have."""

from __future__ import annotations

from typing import Final

from stoker.errors import Problem, SettingsInvalid
from stoker.settings import Settings

# The keeper gets the wake-up descriptor of every slot in one packet, and a packet carries at most 253 descriptors.
MOST_SLOTS: Final = 240


def check(settings: Settings) -> None:
    """Raise SettingsInvalid when the queues together need more slots than there can be."""
    slots = sum(queue.processes + 1 for queue in settings.queues.values())
    if slots > MOST_SLOTS:
        message = (
            f"{slots - len(settings.queues)} processes in {len(settings.queues)} queues are too many for one "
            f"supervisor: processes plus queues may be {MOST_SLOTS}; start another supervisor for some of the queues"
        )
        raise SettingsInvalid(problems=[Problem("", "queues", message)])

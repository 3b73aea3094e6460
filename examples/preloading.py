"""An application that loads a table of 200 MB before the fork, for all its workers, and looks things up in it.

.venv/bin/stoker run --app examples.preloading --queue default=4
.venv/bin/stoker enqueue nearest '{"latitude": 52.5, "longitude": 13.4}' --app examples.preloading

Workers share it for as long as nobody writes to its pages. Python writes to an object whenever it looks at it, to count
who uses it. So a table of many objects is copied page by page by those who read it; one of packed numbers is not.
"""

import os
from array import array
from dataclasses import dataclass
from typing import Any

from stoker import job, preload

TABLE_MB = int(os.environ.get("TABLE_MB", "200"))

# What a place costs, its name and numbers included.
_PLACE_BYTES = 200
_CHUNK = 1 << 17


@dataclass(slots=True)
class Place:
    """One row of a table of objects."""

    name: str
    latitude: float
    longitude: float


@dataclass(slots=True)
class Tables:
    """What was loaded before the fork; `positions` has latitude and longitude in turn."""

    positions: "array[float]"
    places: list[Place]


tables = Tables(array("d"), [])


@preload
def load_positions() -> None:
    """Packed: one object, however many rows. numpy, Arrow, mmap and most models are like this."""
    chunk = array("d", (at * 180 / _CHUNK - 90 for at in range(_CHUNK)))
    tables.positions = chunk * (TABLE_MB * 2**20 // (_CHUNK * chunk.itemsize))


@preload
def load_places() -> None:
    """Objects: five for each row."""
    count = TABLE_MB * 2**20 // _PLACE_BYTES
    tables.places = [Place(f"place {at}", at * 180 / count - 90, at * 360 / count - 180) for at in range(count)]


@job
def nearest(point: dict[str, float]) -> dict[str, Any]:
    """The place that is nearest, the way a table of objects is read: all of it."""
    latitude, longitude = point["latitude"], point["longitude"]
    found = min(tables.places, key=lambda place: abs(place.latitude - latitude) + abs(place.longitude - longitude))
    return {"name": found.name, "latitude": found.latitude, "longitude": found.longitude}


@job
def mean(payload: dict[str, Any]) -> float:
    """The mean of all packed numbers."""
    return sum(tables.positions) / len(tables.positions)

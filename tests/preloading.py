"""What the preloading application and its tests have agreed on; files in the working directory."""

from pathlib import Path

SIZE = 32 << 20
LOADED_BY = Path("loaded_by")
BROKEN, THREADED = Path("broken"), Path("threaded")

"""The script that becomes the guardian: `python -P …/stoker/embedded/boot.py ORDER`.

It puts empty packages where `import stoker` would load all that an application needs: a dozen MB and 0.3 s for a
process that only watches another one. It also finds this very copy of Stoker, whatever the path of the client was.
"""

import sys
from pathlib import Path
from types import ModuleType


def stand_in(name: str, directory: Path) -> None:
    """A package without its `__init__`, in which submodules are found as usual."""
    package = ModuleType(name)
    package.__path__ = [str(directory)]
    sys.modules[name] = package


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    stand_in("stoker", here.parent)
    stand_in("stoker.embedded", here)
    from stoker.embedded.guardian import main

    sys.exit(main())

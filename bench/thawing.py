"""As if the fork server had not frozen what it loaded: imported beside an application that is to be measured so."""

import gc

from stoker import on_start


@on_start
def thaw() -> None:
    """Give everything back to the garbage collector of this worker."""
    gc.unfreeze()

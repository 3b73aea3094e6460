"""The fixed piece of pure-Python work of the CPU figure."""

TURNS = 500_000


def burn(turns: int = TURNS) -> int:
    """A linear congruential generator: a few tens of milliseconds that touch no memory and no system call."""
    value = 1
    for _ in range(turns):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return value

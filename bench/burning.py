"""The fixed pieces of pure-Python work of the CPU figure."""

LONG = 500_000
SHORT = 50_000


def burn(turns: int) -> int:
    """A linear congruential generator: touches no memory and makes no system call."""
    value = 1
    for _ in range(turns):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return value

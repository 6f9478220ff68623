"""Sizes as people write them: `10k`, `100M`, `2G`, or a plain number of bytes.

The letters are powers of 1024, as in Apollo's manual (`10k` is 10,240). A number without a letter
is bytes. Fractions, signs and other letters are refused: a limit that was misread is worse than a
broker that does not start. Durations have no letters at all: their key says the unit (`_s`, `_ms`).
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# More bytes than any machine has; it keeps a mistyped size from becoming "no limit".
SIZE_MAX = 1 << 50

_FACTORS = {"": 1, "k": KIB, "m": MIB, "g": GIB}


def parse_size(value: object) -> int:
    """Return the bytes that `value` means; ValueError says what is wrong with it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _within_bounds(value)
    if not isinstance(value, str):
        raise ValueError(f"a size is a number of bytes or a text like 10k, not {value!r}")
    digits = value.strip().rstrip("kKmMgG")
    letter = value.strip()[len(digits) :].lower()
    if not (digits.isascii() and digits.isdigit()) or letter not in _FACTORS:
        raise ValueError(f"{value!r} is not a size; write bytes, or a number with k, M or G")
    return _within_bounds(int(digits) * _FACTORS[letter])


def format_size(size: int) -> str:
    """Write bytes the way `parse_size` reads them, with the largest letter that is exact."""
    for letter, factor in (("G", GIB), ("M", MIB), ("k", KIB)):
        if size and size % factor == 0:
            return f"{size // factor}{letter}"
    return str(size)


def _within_bounds(size: int) -> int:
    if not 0 <= size <= SIZE_MAX:
        raise ValueError(f"a size lies between 0 and {format_size(SIZE_MAX)}, not {size}")
    return size

"""What every settings record shares: frozen, no unknown key, and the value types with their limits.

A record is plain data with a default for (nearly) every field. Each field's docstring says unit and
reason, and becomes the description in the JSON schema. Keys may be written with hyphens for
underscores, and by the names in OTHER_NAMES that the brokers Covey follows use.

Sizes are written as people write them: `10k`, `100M`, `2G`, or a plain number of bytes. The letters
are powers of 1024, as in Apollo's manual (`10k` is 10,240). Fractions, signs and other letters are
refused: a limit that was misread is worse than a broker that does not start. Durations have no
letters at all: their key says the unit (`_s`, `_ms`). Sizes that are written for people only are
rounded, and name their unit (`1.5 GiB`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# More bytes than any machine has. The bound keeps a mistyped size from becoming "no limit".
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


def human_size(size: int) -> str:
    """Write bytes for people, in the unit that suits their number: `1.5 GiB`."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"


def _within_bounds(size: int) -> int:
    if not 0 <= size <= SIZE_MAX:
        raise ValueError(f"a size lies between 0 and {format_size(SIZE_MAX)}, not {size}")
    return size


# Names of our keys in ActiveMQ's group page (its misspelling `cachedSize` included), in Apollo's
# manuals and in qpidd. Our names say the unit, theirs often do not.
OTHER_NAMES = {
    "bucketCount": "bucket_count",
    "cacheSize": "cache_size",
    "cachedSize": "cache_size",
    "consumersBeforeDispatchStarts": "consumers_before_dispatch",
    "timeBeforeDispatchStarts": "time_before_dispatch_ms",
    "auto_delete_after": "auto_delete_after_s",
    "die_delay": "die_delay_ms",
    "default_msg_group": "default_message_group",
}


def plain_name(key: str) -> str:
    """Return our name of a key: underscores for hyphens, our word for another broker's."""
    name = key.replace("-", "_")
    return OTHER_NAMES.get(name, name)


def _no_boolean(value: object) -> object:
    # In Python, True is the number 1. In a file, `max_headers = true` is a mistake.
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")
    return value


def _split_names(value: object) -> object:
    """Split the text `"a, b"` into a list: the environment has only texts."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


_SizeText = Annotated[str, Field(pattern="^[0-9]+[kKmMgG]?$")]

# A field with bounds of its own puts them first: Annotated[int, Field(ge=1, le=9), NUMBER].
# Bounds after these would be lost from the JSON schema.
NUMBER = BeforeValidator(_no_boolean)
SIZE = BeforeValidator(parse_size, json_schema_input_type=Annotated[int, Field(ge=0)] | _SizeText)

# One value of the store (a message, a row of its journal) has a thousand million bytes at most.
VALUE_MAX = 512 * MIB

Size = Annotated[int, Field(ge=0), SIZE]
SomeSize = Annotated[int, Field(ge=1), SIZE]
ValueSize = Annotated[int, Field(ge=1, le=VALUE_MAX), SIZE]
Count = Annotated[int, Field(ge=0), NUMBER]
SomeCount = Annotated[int, Field(ge=1), NUMBER]
Millis = Annotated[int, Field(ge=0), NUMBER]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), NUMBER]
SomeSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False), NUMBER]
Percent = Annotated[int, Field(ge=0, le=100), NUMBER]
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_split_names)]


class Record(BaseModel):
    """A table of the configuration: what it does not know it refuses."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _plain_names(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        named: dict[str, object] = {}
        for key, value in given.items():
            name = plain_name(str(key))
            if name in named:
                raise ValueError(f"{name} is given twice, under different spellings")
            named[name] = value
        return {**cls.implied(named), **named}

    @classmethod
    def implied(cls, given: dict[str, object]) -> dict[str, object]:
        """Return defaults that follow from other values; whatever is given wins over them."""
        return {}

"""What every settings record shares: frozen, no unknown key, and the value types with their limits.

A record is plain data with a default for (nearly) every field, and each field's docstring says
unit and reason; the docstrings become the descriptions of the JSON schema. Keys may be written
with hyphens for underscores, and by the names in OTHER_NAMES that the brokers Covey follows use.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from covey.config.units import MIB, parse_size

# The names of ActiveMQ's group page (its misspelling `cachedSize` included), of Apollo's manuals
# and of qpidd for keys of ours. Each of ours says its unit, theirs often do not.
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
    # Python's True is the number 1; in a file `max_headers = true` is a mistake.
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")
    return value


def _split_names(value: object) -> object:
    """`"a, b"` is the list of both: the environment has only texts."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


_SizeText = Annotated[str, Field(pattern="^[0-9]+[kKmMgG]?$")]

# A field with bounds of its own puts them first: Annotated[int, Field(ge=1, le=9), NUMBER].
# Bounds after these would be lost from the JSON schema.
NUMBER = BeforeValidator(_no_boolean)
SIZE = BeforeValidator(parse_size, json_schema_input_type=Annotated[int, Field(ge=0)] | _SizeText)

# One value of the store has a thousand million bytes at most: a message, a row of its journal.
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

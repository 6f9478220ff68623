"""Reads another broker's configuration and gives ours, with a note for whatever was left out.

JSON is RabbitMQ's, a table of queues is what `qpid-config` prints, the rest is XML.

The XML is a stranger's: entities and document types are refused (defusedxml), the size is
limited. A document that is not well-formed only because attributes are not in quotes is read all
the same, for ActiveMQ's message groups page prints such a snippet and people paste it.

`apollo`, `activemq` and `artemis` know the vocabularies; the elements tell which one it is. A
snippet of any is as good as a whole file.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from covey.cli.importers import activemq, apollo, artemis, qpid, rabbitmq
from covey.cli.importers.imported import Imported, ImportRefused, local_name
from covey.cli.importers.properties import Beside

XML_BYTES_MAX: Final = 10 * 1024 * 1024  # a hundred times the largest configuration we know

# The roots of Artemis' bootstrap.xml and management.xml.
BESIDE_BROKER_XML: Final = tuple(
    f"{{http://activemq.apache.org/schema}}{name}" for name in ("broker", "management-context")
)
# An attribute whose value has no quotes, inside a tag.
_UNQUOTED: Final = re.compile(r"(<[^<>]*?\s[\w.:-]+)=([^\s\"'<>]+?)(?=\s|/?>)")
# More of them in one tag than this is no forgotten quote.
_UNQUOTED_PER_TAG: Final = 20


def import_text(text: str, beside: Beside | None = None) -> Imported:
    """Return what a foreign configuration means here, or raise ImportRefused."""
    if len(text) > XML_BYTES_MAX:
        raise ImportRefused(f"more than {XML_BYTES_MAX} characters")
    beside = beside or Beside()
    found = Imported(beside.values)
    beside.add_users(found)
    if text.lstrip().startswith("{"):
        rabbitmq.read(text, found)
    elif qpid.is_dump(text):
        qpid.read(text, found)
    else:
        _read_xml(text, found)
    return found


def _read_xml(text: str, found: Imported) -> None:
    root = _parse(text, found)
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, found.resolved(value))
    names = {local_name(element) for element in root.iter()}
    tags = names | {str(element.tag) for element in root.iter()}
    if root.tag in BESIDE_BROKER_XML:
        raise ImportRefused(f"<{local_name(root)}> is beside Artemis' broker.xml: read that one")
    if _is_of_artemis(root, names):
        artemis.read(root, found)
    elif tags & activemq.MARKS:
        activemq.read(root, found)
    elif names & apollo.MARKS:
        apollo.read(root, found)
    else:
        raise ImportRefused(f"<{local_name(root)}> is of neither Apollo, ActiveMQ nor Artemis")


def _is_of_artemis(root: Element, names: set[str]) -> bool:
    """A whole file is in Artemis' namespace, a snippet has one of its elements."""
    return root.tag.startswith("{urn:activemq") or bool(names & artemis.MARKS)


def _parse(text: str, found: Imported) -> Element:
    try:
        return fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ImportRefused("document types and entities are not read") from error
    except ParseError as error:
        quoted = _quoted(text)
        if quoted == text:
            raise ImportRefused(f"not XML: {error}") from error
    try:
        root: Element = fromstring(quoted, forbid_dtd=True)
    except (ParseError, DefusedXmlException) as error:
        raise ImportRefused(f"not XML: {error}") from error
    found.notes.append("attributes without quotes were read as if they had them")
    return root


def _quoted(text: str) -> str:
    for _ in range(_UNQUOTED_PER_TAG):
        changed = _UNQUOTED.sub(r'\1="\2"', text)
        if changed == text:
            break
        text = changed
    return text

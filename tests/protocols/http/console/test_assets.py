"""Assets: the console's files, their names, sizes and headers."""

from __future__ import annotations

import re
from pathlib import Path

from covey.protocols.http.console import assets
from covey.protocols.http.console.assets import PAGE, contents, needed, packed, page, release
from tests.protocols.http.support import World

STATIC = Path(assets.__file__).parent / "static"
BYTES_MAX = 150_000  # of all files together, unpacked
PACKED_MAX = 64_000  # the same by gzip


def test_all_files_together_are_small() -> None:
    assert sum(map(len, contents().values())) < BYTES_MAX
    assert sum(len(packed(name)) for name in contents()) < PACKED_MAX


def test_comments_stay_in_the_tree_and_each_line_has_its_number() -> None:
    for name, content in contents().items():
        given, served = (STATIC / name).read_text().split("\n"), content.decode().split("\n")
        assert len(given) == len(served), name
        gone = [line for line, kept in zip(given, served, strict=True) if line != kept]
        assert all(line.strip()[:2] in ("//", "/*", "* ", "*/", "*") for line in gone), name
        if name.endswith(".js"):
            assert gone
            assert not re.search(r"^\s*(//|/\*)", content.decode(), re.MULTILINE), name


def test_the_page_names_every_module_of_the_first_view_by_its_release() -> None:
    text = page().decode()
    modules = set(needed("main.js", "overview.js"))
    assert {"main.js", "api.js", "chart.js", "table.js"} < modules < set(contents())
    assert set(re.findall(rf'modulepreload" href="/console/{release()}/([\w.]+)"', text)) == modules
    assert f'src="/console/{release()}/main.js"' in text
    assert f'href="/console/{release()}/style.css"' in text
    assert "@RELEASE@" not in text


def test_every_import_leads_to_a_file() -> None:
    for name, content in contents().items():
        text = content.decode()
        wanted = re.findall(r'(?:from |import\()"\./([\w.]+)"', text)
        for given in re.findall(r"\bload\(([^)]*)\)", text):
            words = re.findall(r'"(\w+)"', given)  # a module, what it exports, what it needs
            wanted += [f"{word}.js" for word in words[:1] + words[2:]]
        assert set(wanted) <= set(contents()), f"{name} imports {wanted}"


def test_no_file_writes_markup_or_asks_another_host() -> None:
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://")
    for name, content in contents().items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert [word for word in (*words, "https://", "style=") if word in text] == [], name


def test_files_are_kept_for_ever_and_the_page_never() -> None:
    world = World()
    answer = world.ask("GET", f"/console/{release()}/style.css", None)
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == contents()["style.css"]
    headers = {"accept-encoding": "br"}
    plain = world.ask("GET", f"/console/{release()}/style.css", None, headers=headers)
    assert "content-encoding" not in plain.headers
    assert world.ask("GET", "/", None).headers["cache-control"] == "no-store"


def test_another_release_and_other_files_are_not_there() -> None:
    world = World()
    for path in ("/console/0000/main.js", f"/console/{release()}/{PAGE}", "/console/x/..%2Fapp.py"):
        assert world.ask("GET", path, None).status_code == 404


def test_a_stranger_learns_nothing_from_the_page() -> None:
    world = World()
    world.send("payroll", "g")
    text = world.ask("GET", "/", None).text
    assert "payroll" not in text
    assert world.broker.limits.id not in re.sub(r"<.*?>", "", text)

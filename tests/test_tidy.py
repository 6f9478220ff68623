"""The house rules that no other tool checks: lengths, docstrings, what may stand in which room.

Each rule is a function from one source file (or from all) to its offences, so that a failure names
file and line. The last tests feed every rule something that breaks it.
Import directions between our own packages are import-linter's business (pyproject.toml), layout is
ruff's.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

LINES_WITHOUT_REASON: Final = 450  # beyond this a file likely holds two nouns
LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 60

LINES_MIN: Final = 60  # below this a file is likely a part of another
FILES_MAX: Final = 20  # of one folder: more cannot be seen at a glance
TEST_FILES_MAX: Final = 30  # of one folder of tests, which may have several for one source file

# Files over 450 lines, each with its reason.
LONG_FILES: Final[dict[str, str]] = {
    "protocols/http/routes.py": "the one table of everything that can be asked over HTTP",
    "tests/properties/driver.py": "one event a method, all of one queue and its referee",
    "tests/properties/referee.py": "one judgement a method, all of one set of tables",
    "pipeline/jobs/audit_fold.py": "one state machine: its states and all that changes them",
    "tests/test_tidy.py": "the house rules, their tables and an offence for each are read together",
}

# Files below 60 lines, each with its reason.
ONE_RECORD: Final = "a package's one record for the registry of protocols"
ERROR_TREE: Final = "the room's tree of errors, which all of the room imports"
COMMAND: Final = "one command of many, each in its file"
SHORT_FILES: Final[dict[str, str]] = {
    "core/management/entries.py": "which entry of a name holds, a rule of its own",
    "config/digest.py": "one noun of a configuration, which the server alone asks for",
    "config/errors.py": ERROR_TREE,
    "core/storage/postgres/former.py": "connections that are over, and the query that ends them",
    "core/clock.py": "one noun that every room of the core imports, and nothing else",
    "core/queue/acceptance.py": "one job of a queue, beside the purge",
    "core/host/senders.py": "one noun of a virtual host, which its protocols fill",
    "groups/strategies/shared.py": "a strategy is a file",
    "pipeline/command.py": "starts without Spark, which all others of its room import",
    "pipeline/errors.py": ERROR_TREE,
    "pipeline/job.py": "one noun that every job imports",
    "protocols/amqp/login/sole_connection.py": "a specification of its own",
    "protocols/amqp/protocol.py": ONE_RECORD,
    "protocols/http/protocol.py": ONE_RECORD,
    "protocols/sniff.py": "a table that packages read which do not know each other",
    "src/covey/bench/generator.py": "starts the generator, which must not import what starts it",
    "src/covey/__main__.py": "the way in",
    "src/covey/cli/connections.py": COMMAND,
    "src/covey/cli/jobs.py": COMMAND,
    "src/covey/cli/importers/qpid.py": "a format of its own",
    "config/toml_writer.py": "a format, which two commands write",
    "src/covey/server/event_log_task.py": "one task of the server beside the broker",
    "src/covey/worker/backoff.py": "one noun that users name in their own code",
    "src/covey/worker/window.py": "one noun: how much a worker may hold",
    "src/covey/server/systemd.py": "a protocol of its own, to the service manager",
}

# What may lie in the root: the packages, their neighbours, and the files that tools look for there.
ROOT_ENTRIES: Final = frozenset(
    "config core docs groups pipeline protocols scripts src tests .ci .gitignore CHANGELOG.md"
    " CONTRIBUTING.md LICENSE README.md pyproject.toml setup.py".split()
)
PICTURES: Final = "docs/images/"  # all that is not text

# Rooms in which a class's name means one thing, however deep it lies.
NAMING_ROOMS: Final = ("config", "core", "groups", "pipeline", "protocols", "src/covey")

# Two classes of one name in a room, each with its reason.
OWN_ERRORS: Final = (
    "the worker library stands alone: what the commands' client raises is not its own"
)
OWN_LOAD: Final = "the load generator and the worker library do not know each other"
SHARED_NAMES: Final[dict[tuple[str, str], str]] = {
    ("src/covey", "DeniedError"): OWN_ERRORS,
    ("src/covey", "UnreachableError"): OWN_ERRORS,
    ("src/covey", "Job"): OWN_LOAD,
    ("src/covey", "Link"): OWN_LOAD,
}

# Pictures that once named classes of the core and the protocols. A class is called by the word that
# a user or a specification has for it, and none of these is one.
METAPHOR_ROOMS: Final = ("core/", "protocols/")
METAPHORS: Final = frozenset("Board Crew Dam Founding Glances Parking Shelf Tally Tap".split())
WORD: Final = re.compile("[A-Z][a-z0-9]*")  # of a class's name

PURE_ROOMS: Final = ("core/", "groups/", "config/")
SILENT_ROOMS: Final = (*PURE_ROOMS, "protocols/")

# Time is a parameter, bytes come through the engine and reports leave through the event sink: then
# a whole broker runs in a test, and a run repeats from its seed.
IMPURE_MODULES: Final = frozenset(
    "anyio asyncio cproton cproton_ffi h2 http logging proton select selectors socket socketserver"
    " ssl structlog time urllib uvloop".split()
)

ASYNC_PLACES: Final = (
    "docs/examples/worker/",
    "protocols/forward.py",
    "protocols/http/",
    "protocols/listener.py",
    "protocols/passing.py",
    "protocols/protocol.py",
    "protocols/request_stream.py",
    "protocols/roster.py",
    "scripts/",
    "src/covey/server/",
    "src/covey/worker/",
    "tests/",
)

# Where a function called `is_...` or `has_...` only looks.
PURE_PREDICATES: Final = ("core/", "groups/", "protocols/", "src/covey/")
PREDICATE: Final = re.compile(r"_?(?:is|has)_")
CHANGING_METHODS: Final = frozenset(
    "add append appendleft clear discard extend insert pop popleft remove setdefault update".split()
)
CHANGING_FUNCTIONS: Final = frozenset(("heapify", "heappop", "heappush", "heapreplace"))

# Tests of more than one module: real clients, random runs, whole brokers, the pages' examples.
TESTS_OF_THE_WHOLE: Final = ("acceptance", "docs", "e2e", "interop", "properties")
TESTS_OF_THE_CHECKOUT: Final = (
    "test_packages.py",
    "test_packaging.py",
    "test_scripts.py",
    "test_scripts_build.py",
    "test_tidy.py",
)

FOREIGN_PLACES: Final = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|repo1?\.maven\.|crates\.io"
    r"|(?<![\w.*-])/(?:work|root|home/\w+|Users/\w+)/\w"
)

# Not ours, or made by a tool.
SKIPPED_FOLDERS: Final = re.compile(
    r"\.(?!ci$).*|__pycache__|build|dist|data|node_modules|.*\.egg-info|spark-warehouse|metastore_db"
)


@dataclass(frozen=True)
class Source:
    """One Python file: its place from the root, its text and its tree."""

    place: str
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def imported(self) -> Iterator[tuple[str, int]]:
        """The first name of every absolute import, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module.partition(".")[0], node.lineno


Rule = Callable[[Source], list[str]]


@cache
def our_files() -> tuple[str, ...]:
    """Every file of the checkout that a person wrote, links not followed."""
    places = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not SKIPPED_FOLDERS.fullmatch(name))
        places += [
            (Path(folder) / name).relative_to(ROOT).as_posix()
            for name in sorted(files)
            if name != ".git"  # a file in a checkout that shares another's repository
        ]
    return tuple(places)


@cache
def our_sources() -> tuple[Source, ...]:
    """Every Python file, parsed."""
    return tuple(
        source_of(place, (ROOT / place).read_text()) for place in our_files() if place[-3:] == ".py"
    )


def source_of(place: str, text: str) -> Source:
    return Source(place, text, ast.parse(text, place))


def too_long_files(source: Source) -> list[str]:
    count = source.text.count("\n")
    limit = LINES_MAX if source.place in LONG_FILES else LINES_WITHOUT_REASON
    return [f"{source.place}: {count} lines, at most {limit}"] if count > limit else []


def too_long_functions(source: Source) -> list[str]:
    return [
        f"{source.place}:{node.lineno}: {node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"
        for node in source.functions()
        if (count := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def missing_docstrings(source: Source) -> list[str]:
    if not source.tree.body or ast.get_docstring(source.tree):
        return []
    return [f"{source.place}: no docstring that says what lives here"]


def prints(source: Source) -> list[str]:
    if not source.place.startswith(SILENT_ROOMS):
        return []
    return [
        f"{source.place}:{node.lineno}: print"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and node.id == "print"
    ]


def impure_imports(source: Source) -> list[str]:
    if not source.place.startswith(PURE_ROOMS):
        return []
    return [
        f"{source.place}:{line}: imports {name}"
        for name, line in source.imported()
        if name in IMPURE_MODULES
    ]


def misplaced_async(source: Source) -> list[str]:
    if source.place.startswith(ASYNC_PLACES):
        return []
    return [
        f"{source.place}:{node.lineno}: async def {node.name}"
        for node in source.functions()
        if isinstance(node, ast.AsyncFunctionDef)
    ]


def orphaned_tests(source: Source) -> list[str]:
    """`tests/X/test_y.py` tests `X/y.py` or the package `X/y/`, `test_y_z.py` one side of it."""
    parts = Path(source.place).parts
    if parts[0] != "tests" or not parts[-1].startswith("test_"):
        return []
    if parts[1] in TESTS_OF_THE_WHOLE or parts[1:] in [(name,) for name in TESTS_OF_THE_CHECKOUT]:
        return []
    words = Path(parts[-1]).stem.split("_")[1:]
    rooms = [ROOT.joinpath(start, *parts[1:-1]) for start in ("", "src/covey")]
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    if any((room / f"{name}.py").is_file() for room in rooms for name in names):
        return []
    packages = [room / name for room in rooms for name in names]
    packages += [room for room in rooms if room.name in names]  # X/y/test_y.py: y as a whole
    if any((package / "__init__.py").is_file() for package in packages):
        return []
    return [f"{source.place}: no module of that name to test"]


def acting_predicates(source: Source) -> list[str]:
    """Finds what a predicate changes by its own hand, not what it calls."""
    if not source.place.startswith(PURE_PREDICATES):
        return []
    return [
        f"{source.place}:{node.lineno}: {function.name} changes something: {ast.unparse(node)}"
        for function in source.functions()
        if PREDICATE.match(function.name) and not is_setter(function)
        for node in ast.walk(function)
        if isinstance(node, ast.expr) and is_change(node)
    ]


def is_setter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Attribute) for mark in function.decorator_list)


def is_change(node: ast.AST) -> bool:
    """Return True if a node sets or deletes an attribute or an item, or changes a container."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in CHANGING_FUNCTIONS
    return isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING_METHODS


def late_callables(source: Source) -> list[str]:
    """A callable is given to a constructor, as a method of a class that says what it is for.

    Finds a lambda, a `partial` or a name that is only ever a method, set on another object.
    """
    if not source.place.startswith("core/"):
        return []
    return [
        f"{source.place}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign) and is_callable(node.value)
        if any(is_of_another(target) for target in node.targets)
    ]


def is_of_another(target: ast.expr) -> bool:
    """Return True if an attribute of something other than `self` itself is set."""
    if not isinstance(target, ast.Attribute):
        return False
    return not (isinstance(target.value, ast.Name) and target.value.id == "self")


def is_callable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "partial"
    if isinstance(value, ast.Attribute):
        return value.attr in method_names()
    return isinstance(value, ast.Lambda)


@cache
def method_names() -> frozenset[str]:
    """Every name of the core that is a method somewhere, and a property or an attribute nowhere."""
    methods: set[str] = set()
    others: set[str] = set()
    for source in our_sources():
        if not source.place.startswith("core/"):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and is_change(node):
                others.add(node.attr)
        for kind in [node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]:
            for node in kind.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    others.add(node.target.id)
                elif isinstance(node, ast.FunctionDef):
                    marks = [ast.unparse(mark) for mark in node.decorator_list]
                    (others if "property" in marks else methods).add(node.name)
    return frozenset(methods - others)


def foreign_writers(source: Source) -> list[str]:
    """A queue's `DispatchState` is written by its own room; others call its methods.

    Finds what is set, deleted or changed of an attribute of `state` or of `x.state`, whoever that
    is: no other object called so has attributes that anybody sets.
    """
    if not source.place.startswith("core/") or source.place.startswith("core/dispatch/"):
        return []
    return [
        f"{source.place}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and is_change(node)
        if any(is_of_state(place) for place in changed_by(node))
    ]


def changed_by(node: ast.expr) -> list[ast.expr]:
    """Return what `is_change` found changed: an attribute, an item's table, a container."""
    if isinstance(node, ast.Subscript):
        return [node.value]
    if not isinstance(node, ast.Call):
        return [node]
    return [node.func.value] if isinstance(node.func, ast.Attribute) else node.args[:1]


def is_of_state(place: ast.expr) -> bool:
    if not isinstance(place, ast.Attribute):
        return False
    owner = place.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name in ("state", "_state") and place.attr != "index"  # which is changed by its methods


def foreign_places(place: str, text: str) -> list[str]:
    return [
        f"{place}:{number}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        if (found := FOREIGN_PLACES.search(line))
    ]


def too_short_files(source: Source) -> list[str]:
    count = source.text.count("\n")
    parts = Path(source.place).parts
    if count >= LINES_MIN or parts[-1] == "__init__.py" or parts[0] in ("tests", "docs"):
        return []
    if source.place in SHORT_FILES:
        return []
    return [f"{source.place}: {count} lines, at least {LINES_MIN} unless SHORT_FILES says why"]


def metaphors(source: Source) -> list[str]:
    """Find classes whose names are such a word, or have it in them: `Shelf`, `MessageShelf`."""
    if not source.place.startswith(METAPHOR_ROOMS):
        return []
    return [
        f"{source.place}:{node.lineno}: class {node.name}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and METAPHORS.intersection(WORD.findall(node.name))
    ]


def full_folders(places: Iterable[str]) -> list[str]:
    """Find the folders that hold too many Python files."""
    counts = Counter(Path(place).parent.as_posix() for place in places)
    limits = {folder: TEST_FILES_MAX if is_of_tests(folder) else FILES_MAX for folder in counts}
    return [
        f"{folder}: {count} Python files, at most {limits[folder]}"
        for folder, count in counts.items()
        if count > limits[folder]
    ]


def is_of_tests(folder: str) -> bool:
    return Path(folder).parts[:1] == ("tests",)


def plural_twins(places: Iterable[str]) -> list[str]:
    """Find modules whose names differ by an "s": nobody remembers which is which."""
    stems = {place.removesuffix(".py") for place in places}
    return [f"{stem}.py and {stem}s.py" for stem in sorted(stems) if f"{stem}s" in stems]


def shared_names(sources: Iterable[Source]) -> list[str]:
    """Find classes that have their name in common with another of the same room."""
    found: dict[tuple[str, str], list[str]] = {}
    for source in sources:
        room = next((each for each in NAMING_ROOMS if source.place.startswith(f"{each}/")), "")
        for node in source.tree.body if room else []:
            if isinstance(node, ast.ClassDef):
                found.setdefault((room, node.name), []).append(f"{source.place}:{node.lineno}")
    return [
        f"{room}: {name} in {', '.join(places)}"
        for (room, name), places in found.items()
        if len(places) > 1 and (room, name) not in SHARED_NAMES
    ]


def foreign_files(contents: dict[str, bytes]) -> list[str]:
    """Find what was left behind: entries of the root nobody planned, and files that are no text."""
    return [
        place
        for place, content in contents.items()
        if place.split("/")[0] not in ROOT_ENTRIES
        or (b"\0" in content and not place.startswith(PICTURES))
    ]


RULES: Final[tuple[Rule, ...]] = (
    too_short_files,
    too_long_files,
    too_long_functions,
    missing_docstrings,
    prints,
    impure_imports,
    misplaced_async,
    orphaned_tests,
    acting_predicates,
    late_callables,
    foreign_writers,
    metaphors,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_source_breaks(rule: Rule) -> None:
    assert [offence for source in our_sources() for offence in rule(source)] == []


def test_a_long_file_is_excused_only_while_it_is_long() -> None:
    lengths = {source.place: source.text.count("\n") for source in our_sources()}
    assert [place for place in LONG_FILES if lengths.get(place, 0) <= LINES_WITHOUT_REASON] == []


def test_a_short_file_is_excused_only_while_it_is_short() -> None:
    lengths = {source.place: source.text.count("\n") for source in our_sources()}
    assert [place for place in SHORT_FILES if lengths.get(place, LINES_MIN) >= LINES_MIN] == []


def test_no_folder_is_too_full() -> None:
    assert full_folders(source.place for source in our_sources()) == []


def test_no_two_modules_of_a_folder_differ_by_an_s() -> None:
    assert plural_twins(source.place for source in our_sources()) == []


def test_no_two_classes_of_a_room_have_one_name() -> None:
    assert shared_names(our_sources()) == []


def test_nothing_lies_about() -> None:
    places = [ROOT / place for place in our_files()]
    read = {str(each.relative_to(ROOT)): each.read_bytes() for each in places if each.is_file()}
    assert foreign_files(read) == []
    assert foreign_files({"x.deb": b"", "docs/x.md": b"x\0", "core/x.py": b"x"}) == [
        "x.deb",
        "docs/x.md",
    ]


def test_no_file_names_a_registry_or_a_place_on_a_machine() -> None:
    offences = []
    for place in our_files():
        # A link's text is its target's business, and what is not text names nothing.
        text = "" if (ROOT / place).is_symlink() else (ROOT / place).read_text(errors="replace")
        offences += foreign_places(place, text)
    assert offences == []


def test_every_room_is_linked_into_the_package_and_nothing_else_is() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    links = {
        path.name: os.readlink(path) for path in (ROOT / "src/covey").iterdir() if path.is_symlink()
    }
    assert links == {room: f"../../{room}" for room in rooms}


@pytest.mark.parametrize(
    ("rule", "place", "text"),
    [
        (too_long_files, "core/x.py", "\n" * 451),
        (too_short_files, "core/x.py", "\n" * 59),
        (too_long_functions, "core/x.py", "def f():\n" + "    x\n" * 60),
        (missing_docstrings, "groups/__init__.py", "x = 1\n"),
        (prints, "protocols/x.py", "print('x')\n"),
        (impure_imports, "core/x.py", "import asyncio.events\n"),
        (impure_imports, "config/x.py", "def f():\n    from time import monotonic\n"),
        (misplaced_async, "core/x.py", "async def f(): ...\n"),
        (orphaned_tests, "tests/core/test_no_such_thing.py", ""),
        (orphaned_tests, "tests/test_no_such_thing.py", ""),
        (acting_predicates, "core/queue/x.py", "def is_x(self): self.x = 1\n"),
        (acting_predicates, "core/queue/x.py", "def _has_x(y): return heappop(y)\n"),
        (late_callables, "core/queue/x.py", "queue.done = lambda: None\n"),
        (late_callables, "core/queue/x.py", "def f(self): queue.timers.done = self.enqueue\n"),
        (late_callables, "core/queue/x.py", "def f(self): self.queue.done = partial(f, 1)\n"),
        (foreign_writers, "core/queue/x.py", "queue.state.now = 1\n"),
        (foreign_writers, "core/queue/x.py", "def f(self): self._state.budget += 1\n"),
        (foreign_writers, "core/queue/x.py", "del state.unread[lane]\n"),
        (foreign_writers, "core/broker/x.py", "state.browsers.append(1)\n"),
        (foreign_writers, "core/broker/x.py", "heappop(queue.state.holds)\n"),
        (acting_predicates, "groups/x.py", "def is_x(y): return y.pop()\n"),
        (metaphors, "core/queue/x.py", "class Shelf: ...\n"),
        (metaphors, "protocols/x.py", "class _MessageShelf(Store): ...\n"),
    ],
)
def test_each_rule_finds_its_offence(rule: Rule, place: str, text: str) -> None:
    assert len(rule(source_of(place, text))) == 1


def test_each_rule_of_many_files_finds_its_offence() -> None:
    many = [f"x{number}.py" for number in range(TEST_FILES_MAX + 1)]
    few = many[: FILES_MAX + 1]
    assert len(full_folders(f"core/{place}" for place in few)) == 1
    assert full_folders(f"tests/core/{place}" for place in few) == []
    assert len(full_folders(f"tests/core/{place}" for place in many)) == 1
    assert plural_twins(["core/gate.py", "core/gates.py", "core/dispatch/gate.py"]) == [
        "core/gate.py and core/gates.py"
    ]
    gates = [source_of(place, "class Gate: ...\n") for place in ("core/a.py", "core/x/b.py")]
    assert len(shared_names(gates)) == 1
    assert shared_names([gates[0], source_of("groups/b.py", "class Gate: ...\n")]) == []


@pytest.mark.parametrize(
    "line", ["see https://py" + "pi.org/x", "cd /ro" + "ot/x", "log: '/ho" + "me/me/x'"]
)
def test_foreign_places_are_found(line: str) -> None:
    assert foreign_places("README.md", line) != []


def test_destinations_and_relative_paths_are_not_foreign_places() -> None:
    assert foreign_places("README.md", "/queue/work/x ./root/x /tmp/x https://host/root/x") == []

"""Compiles the hot modules with mypyc when COVEY_COMPILE=1; pyproject.toml holds everything else.

The modules stay plain typed Python: an uncompiled build behaves the same, only slower. An editable
install is never compiled, for its .so files would land in the source tree and win over edited code.
`scripts/clean` deletes such files.
"""

from __future__ import annotations

import os
import sys
import tomllib

from setuptools import Extension, setup

# What runs once per message or per frame says so in its first line. Mark more when a profile asks
# for it. Such a module must compile, and a plain-Python class may inherit from its classes only
# where they allow it. None is of the pipeline: mypyc reads what it imports, and there is no Spark
# at a first start.
MARK = "# Compiled by mypyc: see setup.py."


def hot_modules() -> list[str]:
    """Every module that bears the mark, whichever room it is in."""
    package = os.path.join("src", "covey")
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(package, followlinks=True)
        for name in names
        if name.endswith(".py") and is_marked(os.path.join(folder, name))
    )


def is_marked(path: str) -> bool:
    """Return True if the file's first line is the mark."""
    with open(path, encoding="utf-8") as file:
        return file.readline().rstrip() == MARK


# Set-up asks for metadata several times with other commands; only these produce a build.
BUILDING_COMMANDS = {"bdist_wheel", "build", "build_ext"}


def compiling_requirements() -> list[str]:
    """What pip must put into its build environment: mypyc reads the types of all that is imported.

    The lists are those of pyproject.toml, so `pip wheel .` reads just what scripts/build reads.
    """
    with open("pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["compile"]]


def hot_extensions() -> list[Extension]:
    """Translate the hot modules to C; without `group_name` the shared part is named by a hash.

    Level 2 without symbols: level 3 with them takes a seventh more time and nearly twice the room.
    """
    from mypyc.build import mypycify  # present in the build environment only when compiling

    return mypycify(hot_modules(), opt_level="2", debug_level="0", group_name="covey")


compiling = os.environ.get("COVEY_COMPILE") == "1"
building = not BUILDING_COMMANDS.isdisjoint(sys.argv)
setup(
    setup_requires=compiling_requirements() if compiling else [],
    ext_modules=hot_extensions() if compiling and building else [],
)

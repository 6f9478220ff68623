"""Compiles the hot modules with mypyc when COVEY_COMPILE=1; pyproject.toml holds everything else.

The modules stay plain typed Python: an uncompiled build behaves the same, only slower. An editable
install is never compiled, for its .so files would land in the source tree and win over edited code.
`scripts/clean` deletes such files.

Where pip could not compile proton afterwards, one line says what to install, before anything is
downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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

# One library of many C files. What they call of each other is looked up nowhere, as in one file.
COMPILER_FLAGS = ["-fvisibility=hidden", "-fno-semantic-interposition"]


def compiling_requirements() -> list[str]:
    """What pip must put into its build environment: mypyc reads the types of all that is imported.

    The lists are those of pyproject.toml, without the packages that mypy is told to do without:
    they have no types to read, and proton alone would be compiled for a minute.
    """
    with open("pyproject.toml", "rb") as file:
        told = tomllib.load(file)
    project, overrides = told["project"], told["tool"]["mypy"]["overrides"]
    untyped = {
        name for one in overrides if "ignore_missing_imports" in one for name in one["module"]
    }
    extras = project["optional-dependencies"]
    # psycopg, too: stores are chosen in a hot module, and the types of each are read.
    wanted = [*project["dependencies"], *extras["compile"], *extras["cluster"]]
    return [one for one in wanted if f"{module_of(one)}.*" not in untyped]


def module_of(requirement: str) -> str:
    """Give the module's name of those packages whose own name has more to it."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return name.removeprefix("python-qpid-").removeprefix("google-")


def hot_extensions() -> list[Extension]:
    """Translate the hot modules to C, a file each; all of them are one library.

    Level 2 without symbols: level 3 with them takes a seventh more time and nearly twice the room.
    """
    from mypyc.build import mypycify  # present in the build environment only when compiling

    tell("translating the hot modules to C")
    # An exception made for a package is not used where that package is not there.
    asked = ["--no-warn-unused-ignores", *hot_modules()]
    found = mypycify(asked, opt_level="2", debug_level="0", group_name="covey", multi_file=True)
    for extension in found:
        extension.extra_compile_args += COMPILER_FLAGS
    return found


def tell(what: str) -> None:
    """Say how far it is, in lines that scripts/build looks for."""
    sys.stdout.write(f"covey-build: {what}\n")
    sys.stdout.flush()


class ParallelBuild(build_ext):
    """Compiles all files of all extensions on all cores, the largest first; then links.

    setuptools alone compiles an extension's files one after the other.
    """

    def build_extensions(self) -> None:
        """Do it, and say how far it is after each file."""
        sources = [
            (os.path.getsize(path), path, one) for one in self.extensions for path in one.sources
        ]
        total = sum(size for size, _, _ in sources)
        done = 0
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            jobs = {
                pool.submit(self._compile, extension, path): (size, extension)
                for size, path, extension in sorted(sources, key=lambda each: -each[0])
            }
            for job in as_completed(jobs):
                size, extension = jobs[job]
                extension.extra_objects += job.result()
                done += size
                tell(f"{100 * done // total} % compiled")
            for extension in self.extensions:
                extension.sources = []
            list(pool.map(self.build_extension, self.extensions))  # there is nothing but to link
        tell("done")

    def _compile(self, extension: Extension, path: str) -> list[str]:
        objects: list[str] = self.compiler.compile(
            [path],
            output_dir=self.build_temp,
            include_dirs=extension.include_dirs,
            extra_postargs=extension.extra_compile_args,
        )
        return objects


def lacking_packages() -> list[str]:
    """Name the Debian packages without which pip cannot compile proton, which has no wheel."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    lacking = []
    if shutil.which(compiler.split()[0]) is None:
        lacking += ["gcc", "libc6-dev"]
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        lacking.append(f"{python}-dev")
    if shutil.which("pkg-config") is None:
        lacking += ["pkg-config", "libssl-dev"]
    elif subprocess.run(["pkg-config", "--exists", "openssl"], check=False).returncode:
        lacking.append("libssl-dev")
    return lacking


def check_compiler() -> None:
    """Refuse an installation that would end in a page of a compiler's complaints."""
    is_installing = "dist_info" in sys.argv  # what pip asks for first; an sdist does without
    has_proton = os.path.isdir(os.path.join(sysconfig.get_path("platlib"), "proton"))
    if not is_installing or has_proton or os.environ.get("COVEY_WITHOUT_COMPILER"):
        return
    lacking = lacking_packages()
    if lacking:
        raise SystemExit(
            "covey: python-qpid-proton must be compiled, and packages are missing for it; install"
            f" them with: sudo apt-get install {' '.join(lacking)}"
            " (or have a wheel of it and set COVEY_WITHOUT_COMPILER=1)"
        )


if sys.argv[1:] == ["translate"]:  # scripts/build --check asks only whether it can be done
    hot_extensions()
    raise SystemExit

check_compiler()
compiling = os.environ.get("COVEY_COMPILE") == "1"
building = not BUILDING_COMMANDS.isdisjoint(sys.argv)
setup(
    setup_requires=compiling_requirements() if compiling else [],
    ext_modules=hot_extensions() if compiling and building else [],
    cmdclass={"build_ext": ParallelBuild},
)

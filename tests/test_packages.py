"""scripts/packages, on a path that has the commands of all packages but one."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.checkout import ROOT, Checkout, checkout

__all__ = ["checkout"]


def rows_of_packages() -> list[list[str]]:
    text = (ROOT / "scripts/packages").read_text()
    rows = [line.rstrip('"').split("|") for line in text.splitlines() if line.count("|") == 3]
    return [row for row in rows if not row[0].startswith("#")]


def table_of_packages() -> dict[str, str]:
    return {row[0]: row[1] for row in rows_of_packages()}


def test_what_is_skipped_without_a_package_is_named_by_files_that_are_there() -> None:
    named = [name for row in rows_of_packages() for name in row[3].split()]
    assert len(named) >= len(rows_of_packages())
    assert [name for name in named if not (ROOT / name).exists()] == []


def without(checkout: Checkout, missing: str) -> None:
    """Give a checkout a path on which one of the commands is missing."""
    commands = [*table_of_packages(), "bash", "dirname", "readlink", "id", "sed", "sort", "env"]
    for name in [*commands, "timeout"]:
        if name != missing:
            checkout.executable(f"here/{name}", "#!/bin/sh\n")
    for name in ("bash", "dirname", "readlink", "sed", "sort", "env"):
        (checkout.root / "here" / name).unlink()
        (checkout.root / "here" / name).symlink_to(str(shutil.which(name)))
    checkout.executable("here/id", "#!/bin/sh\necho 0\n")
    checkout.executable("here/timeout", '#!/bin/sh\nshift\nexec "$@"\n')
    checkout.env["PATH"] = f"{checkout.root}/here"


def test_packages_names_what_is_missing_and_what_is_skipped_without(checkout: Checkout) -> None:
    without(checkout, "zsh")
    status, out, err = checkout.run("packages")
    missing = [line for line in out.splitlines() if line.startswith("MISSING")]
    assert (status, len(missing)) == (0, 1)
    assert "completion" in missing[0]
    assert "skipped without it: tests/cli" in out
    assert err == "covey: 1 missing; scripts/packages --install brings them\n"


def test_packages_installs_only_what_is_missing(checkout: Checkout) -> None:
    without(checkout, "mvn")
    checkout.executable("here/apt-get", '#!/bin/sh\necho "apt-get $*"\n')
    status, _, err = checkout.run("packages", "--install")
    assert status == 0
    assert "apt-get -q -y --no-install-recommends install maven\n" in err


@pytest.mark.parametrize(
    ("apt", "said"), [("", "no apt-get here; missing: maven"), ("exit 1", "apt-get could not")]
)
def test_packages_that_cannot_be_installed_are_told(
    checkout: Checkout, apt: str, said: str
) -> None:
    without(checkout, "mvn")
    if apt:
        checkout.executable("here/apt-get", f"#!/bin/sh\n{apt}\n")
    status, _, err = checkout.run("packages", "--install")
    assert (status, said in err) == (1, True)


def test_packages_lists_every_command_that_a_test_may_miss() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"which\(\"([\w-]+)\"\)", text)}
    compilers = {"cc", "gcc"}  # scripts/setup asks for one
    assert named - table_of_packages().keys() - compilers == set()

"""What `import covey.worker` brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import covey

CHILD = """
import sys
import covey.worker
names = {name.partition(".")[0] for name in sys.modules}
ours = {name for name in sys.modules if name.startswith(("covey.core.", "covey.config"))}
print(sorted(names - set(sys.stdlib_module_names) - {"covey", "__main__", "_distutils_hack"}))
print(sorted(ours))
"""


def test_the_package_loads_the_codec_and_the_standard_library_alone() -> None:
    said = subprocess.run(
        [sys.executable, "-P", "-c", CHILD],
        env={"PYTHONPATH": str(Path(covey.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    others, ours = said.stdout.splitlines()
    names = others[1:-1].split(", ") if others != "[]" else []
    assert [name for name in names if "mypyc" not in name] == []  # a compiled codec has its runtime
    assert ours == "['covey.core.errors']"

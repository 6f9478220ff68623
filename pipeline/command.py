"""The installed command `covey-pipeline`: runs a job, or says which packages are missing.

Without its extra `pipeline`, Covey is installed without Spark. Then the command is there, but the
packages that it needs are not. The command says so in one line, before it imports any of them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

PACKAGES: Final = ("pyspark", "pyarrow", "numpy", "pandas", "matplotlib")
CANNOT: Final = 2  # the exit code of a job that cannot do its work


def main() -> int:
    """Run a job; return its exit code."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"covey-pipeline: {', '.join(missing)} is missing; install Covey with its extra:"
            " pip install 'covey[pipeline]', or scripts/setup pipeline in a checkout\n"
        )
        return CANNOT
    from covey.pipeline.__main__ import main as run

    return run()

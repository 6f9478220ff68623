"""The status page in a real browser: what it shows, and that no name becomes a script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess

pytestmark = pytest.mark.interop

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_S = 60
HOSTILE = "<img src=x onerror=\"document.title='taken over'\"><script>document.title='too'</script>"


def browse(folder: Path, broker: BrokerProcess) -> str:
    """Open the page without a window; return what the browser made of it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    (line,) = [line for line in broker.welcome.splitlines() if line.split()[0] == "http"]
    url = f"http://{LOGIN}:{PASSCODE}@{line.split()[1]}/"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    done = subprocess.run(
        [browser, *flags, "--dump-dom", url], capture_output=True, text=True, timeout=BROWSER_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_groups_and_runs_nobodys_script(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with broker.client() as client:
        headers = {"destination": "/queue/seen", "message_group": HOSTILE}
        client.send("SEND", headers, b"x")
        client.subscribe("/queue/seen", ack="client", credit="1,0")
        page = browse(tmp_path, broker)
    assert "<title>covey " in page
    assert "&lt;img src=x onerror" in page
    assert "taken over" not in page.partition("</title>")[0]
    assert "<script" not in page

"""The page in a browser: chromium, headless, opens a route and sends its example."""

from __future__ import annotations

import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def shown(url, folder):
    """Return the page as it stands once its scripts have run."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={folder}", "--virtual-time-budget=20000", "--dump-dom", url,
    ]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return found.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there")
def test_a_browser_shows_the_routes_and_gets_an_answer(server, tmp_path):
    path = "/v1/models/numbers/versions/1:predict"
    page = shown(f"{server.url}/#{path}", tmp_path)
    assert f"<code>{path}</code>" in page
    assert "/v2/models/mixed/versions/1/infer" in page
    assert "200 in " in page
    assert '"predict_proba": {' in page

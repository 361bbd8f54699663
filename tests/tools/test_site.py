"""Links out of docs/ lead to pages of the site, and the site refuses what it does not have."""

import subprocess
import sys
from pathlib import Path

from tests.pages import ROOT
from tools.docs.hooks import linked, relink

CONFIG = """
site_name: a
strict: true
theme: {name: material, font: false}
plugins: []
markdown_extensions: [pymdownx.superfences, pymdownx.highlight]
docs_dir: %s
hooks: [%s]
"""


def test_a_link_leads_to_the_page_of_the_file() -> None:
    page, text = "tutorials/a.md", "[a](../../deployments/settings/limits.py) [b](../authoring.md) [c](b.md)"
    assert list(linked(page, text)) == ["deployments/settings/limits.py"]
    assert relink(page, text) == "[a](../source/deployments/settings/limits.py.md) [b](../authoring.md) [c](b.md)"


def build(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(text)
    (folder / "mkdocs.yml").write_text(CONFIG % (folder / "docs", ROOT / "tools" / "docs" / "hooks.py"))
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(folder / "mkdocs.yml"), "-d", str(folder / "site")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_page_is_built_with_the_files_that_it_links_to(tmp_path: Path) -> None:
    done = build(
        tmp_path,
        '[limits](../deployments/settings/limits.py)\n\n<!-- not run: needs a GPU -->\n```console\n$ a "b"\nc\n```\n',
    )
    assert done.returncode == 0, done.stderr
    assert (
        "max_body_bytes"
        in (tmp_path / "site" / "source" / "deployments" / "settings" / "limits.py" / "index.html").read_text()
    )
    page = (tmp_path / "site" / "index.html").read_text()
    assert "not run" not in page
    assert page.count('data-copy="a &quot;b&quot;"') == 1


def test_what_a_reader_could_not_open_ends_the_build(tmp_path: Path) -> None:
    texts = {
        "[a](../deployments/no_such.py)": "no_such.py, which the repository does not have",
        "![a](https://example.com/a.png)": "loads <img",
        "<script src=//example.com/a.js></script>": "loads <script",
    }
    done = build(tmp_path, "\n\n".join(texts))
    assert done.returncode == 1
    assert [result for result in texts.values() if result not in done.stderr] == []

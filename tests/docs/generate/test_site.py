"""The site: what copy buttons copy, the version, and pages as mkdocs builds them."""

import html
import inspect
import re
from pathlib import Path

import pytest

import aisrv
from docs.generate import site
from host_tools.client import AiServer
from tests.support.manual_page import Page, commands_of
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def test_what_is_typed_is_what_the_tests_of_the_manual_type() -> None:
    blocks = [block for path in DOCS.rglob("*.md") for block in Page.read(path).blocks()]
    sessions = [block for block in blocks if block.language == "console"]
    assert sessions
    for block in sessions:
        assert site.typed(block.text) == "\n".join(command.text for command in commands_of(block))


def test_of_a_python_session_the_statements_are_typed() -> None:
    session = ">>> for each in (1, 2):\n...     print(each)\n1\n2\n>>> 3\n3\n... no prompt"
    assert site.typed(session, "pycon") == "for each in (1, 2):\n    print(each)\n3"


def test_a_block_gets_what_its_button_copies() -> None:
    block = (
        '<div class="language-console highlight"><pre><span></span><code><span class="gp">$ </span>'
        'echo<span class="w"> </span>&quot;a&quot;<span class="w"> </span>&gt;<span class="w"> </span>b\n'
        '<span class="go">out</span>\n</code></pre></div>'
    )
    other = '<div class="language-python highlight"><pre><code>$ no\n</code></pre></div>'
    assert site.on_page_content(block + other, page=None) == (
        '<div data-copy="echo &quot;a&quot; &gt; b" ' + block.removeprefix("<div ") + other
    )


def test_the_name_of_the_site_has_the_version() -> None:
    class Config:
        site_name = "aisrv"

    assert site.on_config(Config()).site_name == f"aisrv {aisrv.__version__}"


# The site as mkdocs builds it; `make docs` installs what that takes.

PAGES = ("index.md", "start/first-steps.md", "reference/api/host.md")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some pages of the site, built with its configuration."""
    pytest.importorskip("material", reason="mkdocs-material is not installed: make docs installs it")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: make docs installs it")
    load_config = pytest.importorskip("mkdocs.config").load_config
    build = pytest.importorskip("mkdocs.commands.build").build
    folder = tmp_path_factory.mktemp("site")
    config = load_config(
        str(ROOT / ".mkdocs.yml"),
        site_dir=str(folder),
        strict=False,
        nav=[{"Start": ["index.md", "start/first-steps.md"]}, {"API": ["reference/api/host.md"]}],
        exclude_docs="*.py\n*.md\n" + "\n".join(f"!/{page}" for page in PAGES),
    )
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder


def page(built: Path, name: str) -> str:
    return (built / name).read_text(encoding="utf-8")


def test_pages_have_their_neighbors_in_the_footer(built: Path) -> None:
    text = page(built, "start/first-steps.html")
    assert re.findall(r'class="md-footer__link md-footer__link--(\w+)" aria-label="([^"]+)"', text) == [
        ("prev", "Previous: aisrv"),
        ("next", "Next: Host library"),
    ]


def test_pages_show_the_version(built: Path) -> None:
    assert f'title="aisrv {aisrv.__version__}"' in page(built, "index.html")


def test_the_start_page_begins_with_installing_and_a_picture(built: Path) -> None:
    text = re.sub("</?span[^>]*>", "", page(built, "index.html"))
    install, picture, parts = (text.index(each) for each in ("pip install .", "images/demo.svg", "<table>"))
    assert install < picture < parts
    assert (built / "guides/images/demo.svg").is_file()


def test_search_makes_suggestions(built: Path) -> None:
    assert '"search.suggest"' in page(built, "index.html")


def test_ai_server_is_first_on_its_page_with_its_whole_signature(built: Path) -> None:
    text = page(built, "reference/api/host.html")
    names = re.findall(r'<h2 id="([\w.]+)"', text)
    assert names[:2] == ["host_tools.client.AiServer", "host_tools.client"]
    assert names.count("host_tools.client.AiServer") == 1
    signature = re.search(
        r'class="language-python doc-signature highlight">.*?<code>(.*?)</code>', text, re.DOTALL
    )
    assert signature is not None
    shown = html.unescape(re.sub("<[^>]*>", "", signature[1])).splitlines()
    parameters = inspect.signature(AiServer).parameters.values()
    assert [shown[0], shown[-1]] == ["AiServer(", ")"]
    assert [line.strip().split(": ")[0] for line in shown[1:-1] if line.strip() != "*,"] == [
        each.name for each in parameters
    ]
    assert "    timeout: float | None = DEFAULT_TIMEOUT," in shown


def test_copy_buttons_of_sessions_have_commands_alone(built: Path) -> None:
    blocks = re.findall(
        r'<div (?:data-copy="([^"]*)" )?class="language-console', page(built, "start/first-steps.html")
    )
    assert blocks
    assert all(blocks)
    assert html.unescape(blocks[0]) == "aisrv demo --count 2"

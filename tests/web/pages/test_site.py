"""The pages themselves, crawled: everything answers, nothing leaks, everything that must be said is said."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.testclient import TestClient
from tests.web.pages.scene import API_KEY, SEALED, TOKEN, Scene, When

from palestra.web.pages.site import Site
from palestra.web.pages.source import FolderRun


class Links(HTMLParser):
    """Addresses that a page leads to, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        for name in ("href", "src"):
            if given.get(name):
                self.found.add(str(given[name]))


class Visit(NamedTuple):
    """One answer."""

    path: str
    status: int
    body: bytes
    headers: dict[str, str]


def visit(site: Site) -> tuple[TestClient, dict[str, Visit]]:
    """Everything that can be reached from the first page, and what scripts ask for."""
    asyncio.run(site.begin())
    client = TestClient(site)
    left, seen = ["/", "/tick.json", "/nowhere"], dict[str, Visit]()
    while left:
        path = left.pop()
        if path in seen:
            continue
        answer = client.get(path, headers={"accept-encoding": "identity"})
        seen[path] = Visit(path, answer.status_code, answer.content, dict(answer.headers))
        if answer.headers["content-type"].startswith("text/html"):
            links = Links()
            links.feed(answer.text)
            base = path.split("?")[0]
            for link in links.found:
                target = link.split("#")[0]
                left.append(base + target if target.startswith("?") else target or base)
    return client, seen


@pytest.fixture(scope="module", params=["announced", "running", "results"])
def crawled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[When, Site, TestClient, dict[str, Visit]]]:
    when: When = request.param
    scene = Scene(when)
    source = FolderRun(scene.write(tmp_path_factory.mktemp("site") / "run"), scene.run.at)
    site = Site(source)
    client, seen = visit(site)
    yield when, site, client, seen


Crawled = tuple[When, Site, TestClient, dict[str, Visit]]


def pages(crawled: Crawled) -> list[Visit]:
    return [one for one in crawled[3].values() if one.headers["content-type"].startswith("text/html")]


def test_every_link_answers(crawled: Crawled) -> None:
    seen = crawled[3]
    assert {one.status for path, one in seen.items() if path != "/nowhere"} == {200}
    assert seen["/nowhere"].status == 404
    assert {"/", "/agents/A", "/agents/D/steps"} <= seen.keys()
    assert crawled[0] == "announced" or "/jobs/C-j1" in seen


def test_an_alias_holds_in_every_byte(crawled: Crawled) -> None:
    """S57: pages, JSON, static files and headers hold no sealed name, however it is spelled."""
    for one in crawled[3].values():
        said = (one.body + repr(one.headers).encode() + one.path.encode()).lower()
        for name in SEALED:
            words = name.lower().encode().split()
            assert not re.search(rb"[\W_]*".join(words), said), one.path


def test_no_token_and_no_key_is_shown(crawled: Crawled) -> None:
    """S51: one was printed by a job, said by an agent and written into a log."""
    for one in crawled[3].values():
        assert TOKEN.encode() not in one.body and API_KEY.encode() not in one.body, one.path
        assert b"5eed5eed5eed5eed" not in one.body
    if crawled[0] != "announced":
        assert b'class="msk"' in crawled[3]["/agents/C/steps"].body


def test_every_page_says_what_must_be_said(crawled: Crawled) -> None:
    for one in pages(crawled):
        assert b"A slot is not a GPU." in one.body, one.path
        assert b"Agents were not sandboxed." in one.body, one.path


def test_hostile_text_makes_no_tag_and_no_handler(crawled: Crawled) -> None:
    """F51: what agents wrote is text on every page."""
    for one in pages(crawled):
        links = Links()
        links.feed(one.body.decode())
        scripts = [given for tag, given in links.tags if tag == "script"]
        assert len(scripts) == 2 and all(str(given["src"]).startswith("/static/") for given in scripts), (
            one.path
        )
        for tag, given in links.tags:
            assert tag not in ("img", "iframe", "object", "embed", "base"), one.path
            assert not [name for name in given if name.startswith("on")], (one.path, tag, given)
            assert not str(given.get("href", "")).lower().startswith(("javascript", "data", "http")), one.path
        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", one.body), one.path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\ufeff]", one.body.decode()), one.path


def test_pages_can_be_sent_over_a_slow_line(crawled: Crawled) -> None:
    """F51: also the one with a log line of a megabyte; the tick has 2 KB at most."""
    for one in pages(crawled):
        assert len(gzip.compress(one.body)) < 40_000, one.path
    assert len(gzip.compress(crawled[3]["/tick.json"].body)) <= 2_048


def test_every_answer_is_guarded(crawled: Crawled) -> None:
    for one in crawled[3].values():
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert (
            "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")
            and "unsafe-eval" not in policy
        )
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["referrer-policy"] == "no-referrer"


def test_an_unchanged_page_is_not_sent_twice(crawled: Crawled) -> None:
    client = crawled[2]
    first = client.get("/")
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_only_reading_is_possible(crawled: Crawled) -> None:
    client = crawled[2]
    for path in ("/", "/agents/A", "/stream", "/tick.json"):
        assert client.post(path).status_code == 405
    for path in (
        "/agents/%2e%2e",
        "/agents/A%22%3E%3Cb%3E",
        "/jobs/<script>",
        "/static/../site.py",
        "/static/..%2f..%2fskin.py",
        "/agents/A/steps?from=%00",
    ):
        answer = client.get(path)
        assert answer.status_code in (200, 404) and "<script>" not in answer.text.replace(
            '<script src="/static', ""
        )


def test_the_tick_tells_what_the_state_is(crawled: Crawled) -> None:
    when, site, _, seen = crawled
    tick = json.loads(seen["/tick.json"].body)
    state = site._source.view().state
    assert tick["seq"] == state.seq and tick["stage"] == state.clock.stage == when
    assert tick["agents"]["A"]["api_spent"] == state.accounts["A", "api"].spent
    assert tick["agents"].keys() == set("ABCD")


def test_pages_are_readable_without_script(crawled: Crawled) -> None:
    """All figures are in the page as the server sends it."""
    when, _, _, seen = crawled
    text = re.sub(r"<[^>]+>", " ", seen["/"].body.decode())
    for word in ("Careful", "Full Tilt", "Owl", "Scoreboard", "$0.50"):
        assert word in text
    if when == "results":
        assert "74.2 %" in text and "71.4 to 76.8" in text and "The base model" in text
    if when == "running":
        assert "stranded" in text and "Would start now with 2 GiB." in text


def test_the_clock_counts_down_before_the_start(crawled: Crawled) -> None:
    when, _, _, seen = crawled
    text = re.sub(r"<[^>]+>", "", seen["/"].body.decode())
    assert "T+T" not in text
    assert ("T-0:10:00" in text) == (when == "announced")


def test_an_exam_that_is_not_in_yet_shows_no_score(crawled: Crawled) -> None:
    when, _, _, seen = crawled
    assert (b"95 % interval" in seen["/"].body) == (when == "results")


def test_a_done_agent_has_no_pace(crawled: Crawled) -> None:
    """S46: done with its time; no pace mark. S58: nobody who hasn't begun is divided by zero."""
    page = crawled[3]["/agents/D"].body.decode()
    assert "even pace" not in page.split("<main")[1].replace("The tick is the even pace of its own time", "")
    assert "NaN" not in page and "nan" not in page.split()


def test_requested_copied_and_decided_are_told_apart(crawled: Crawled) -> None:
    """S04."""
    when, _, _, seen = crawled
    if when != "announced":
        page = seen["/agents/A"].body.decode()
        for word in ("T+0:00:51", "T+0:00:53", "T+0:00:56"):
            assert word in page
        assert "unchanged copy" in seen["/agents/C"].body.decode()


def test_a_cut_reply_is_marked(crawled: Crawled) -> None:
    """F10: the reply was cut in the middle of a tool call."""
    if crawled[0] != "announced":
        page = crawled[3]["/agents/D/steps"].body.decode()
        assert "Cut here." in page and "output limit" in page


def test_an_end_and_its_cause_are_two_things_with_evidence(crawled: Crawled) -> None:
    """S11, S72."""
    if crawled[0] != "announced":
        page = crawled[3]["/agents/B"].body.decode()
        assert "out of memory" in page and "gpu oom" in page and "CUDA out of memory" in page


def test_the_arenas_own_jobs_show_no_command_and_no_log(tmp_path: Path) -> None:
    scene = Scene("results")
    house = next(
        row.subject
        for row in scene.run.rows
        if row.kind == "JobSubmitted" and row.subject.startswith("house")
    )
    folder = scene.write(tmp_path / "run")
    spool = folder.spool / "attempts" / f"{house}.1"
    spool.mkdir(parents=True)
    (spool / "out").write_text("hidden question 1")
    site = Site(FolderRun(folder))
    asyncio.run(site.begin())
    page = TestClient(site).get(f"/jobs/{house}").text
    assert "hidden question" not in page and "not public" in page

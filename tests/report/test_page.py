"""The page: each figure leads to its rows, hostile text does nothing, aliases hold, and what must be said is said."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.building import START, Rehearsal, competition
from tests.report.looking import Element, look
from tests.report.pocket import HOSTILE
from tests.report.reading import EVERY, UTC, facts_of, rows_of
from tests.sealing import sealed

from palestra.events.masking import Secret
from palestra.referee.requests import Finish
from palestra.report.day import compose
from palestra.report.gather import gather
from palestra.report.render import render
from palestra.report.skin import Skin, Template
from palestra.report.window import Asked
from palestra.rules.competition import EntrantRule, Node
from palestra.rules.units import MINUTE, Bytes, Moment, show_dollars
from palestra.runtime.skins import load_skin

MID = Asked(until="T+0:01:10")
SKIN = load_skin(fonts=False)


@cache
def html(name: str, asked: Asked = Asked()) -> str:  # noqa: B008  a frozen struct
    return render(compose(facts_of(name, asked)), SKIN)


@cache
def page(name: str, asked: Asked = Asked()) -> Element:  # noqa: B008  a frozen struct
    return look(html(name, asked))


def section(name: str, place: str, asked: Asked = Asked()) -> Element:  # noqa: B008  a frozen struct
    return next(one for one in page(name, asked).all("section") if one.attributes["id"] == place)


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_leads_to_rows_that_are_listed(name: str) -> None:
    """Every link goes to a place on the page, and every place names rows of the record up to the instant."""
    whole = page(name)
    ids = [one.attributes["id"] for one in whole.all() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    links = [one.attributes["href"] for one in whole.all("a")]
    assert links and all(link.startswith("#") and link[1:] in ids for link in links), links
    for entry in whole.all("ol", "evid")[0].all("li"):
        numbers = [int(number) for number in re.findall(r"\d+", entry.all("span")[0].text.replace(",", ""))]
        assert numbers and max(numbers) <= facts_of(name).row


@pytest.mark.parametrize("asked", [Asked(), MID])
def test_a_card_for_each_key_finding_and_the_top_one_is_the_headline(asked: Asked) -> None:
    composed = compose(facts_of("pocket", asked))
    cards = section("pocket", "findings", asked).all("article")
    assert len(cards) == len(composed.cards) > 3
    assert page("pocket", asked).all("h1")[0].text == composed.head.replace("\u00a0", " ")
    assert all(card.all("a", "fg") for card in cards)


def test_hostile_text_is_only_text() -> None:
    """A note that closes the style and brings a script is shown letter by letter; its hidden characters are visible."""
    whole = page("pocket")
    assert whole.all("script") == []
    assert whole.all("img") == []
    assert [name for one in whole.all() for name in one.attributes if name.startswith("on")] == []
    notes = [one.text for one in whole.all("small", "own")]
    assert f"“{HOSTILE}”".replace("\x1b", "\\x1b").replace("\u202e", "\\u202e") in notes
    policy = next(one for one in whole.all("meta") if one.attributes.get("http-equiv"))
    assert policy.attributes["content"].startswith("default-src 'none'")
    assert "\x1b" not in html("pocket")
    assert "\u202e" not in html("pocket")


def test_nothing_is_fetched() -> None:
    """One file: no address outside, no link to a style or font."""
    text = render(compose(facts_of("pocket")), load_skin())
    assert re.findall(r"url\((?!data:)", text) == []
    assert re.findall(r"https?://", text) == []
    assert text.count("data:font/woff2;base64,") == 2
    assert len(text) < 300_000


@pytest.mark.parametrize("name", ["complete", "troubled", "joined"])
def test_an_alias_holds(name: str) -> None:
    """The true names are nowhere, and who competes under an alias is marked."""
    for hidden in ("Agent One", "Lab One"):
        assert hidden not in html(name)
    assert "Alias" in section(name, "board").all("tr")[1].text + section(name, "board").all("tr")[2].text


def test_a_sealed_name_that_an_agent_writes_itself_is_masked() -> None:
    """Also in a label, a note and a last word, however it is joined."""
    run = Rehearsal(competition(entrants=(EntrantRule("Owl", model="small"),)))
    run.at = Moment(START + MINUTE)
    run.grant(Finish("A", None, "signed, true-name of Lab_Nine, token sk-abcdefghijklmnopqrstuvwx"))
    secrets = (Secret("True Name", "Owl", name=True), Secret("Lab Nine", "Owl", name=True))
    text = render(compose(gather(run.rows, Asked(), UTC, secrets)), SKIN)
    assert "true-name" not in text and "Lab_Nine" not in text and "sk-abc" not in text
    assert "signed, Owl of Owl" in text


def test_it_says_what_must_be_said() -> None:
    """Slots, unsandboxed, the instant, the row, the digest, and how to check."""
    text = section("pocket", "method").text
    facts = facts_of("pocket")
    for said in (
        "A slot is not a GPU.", "Agents ran as ordinary processes", facts.digest, f"row {facts.row}", "palestra verify RUN",
        "Nothing was written by a model",
    ):  # fmt: skip
        assert said in text, said
    foot = page("pocket").all("footer")[0].text
    assert "Agents were not sandboxed." in foot
    assert "A slot is not a GPU." in foot
    assert "slot-s" in section("pocket", "board").text
    assert "GPU-s" not in html("pocket")


def test_gpus_are_called_gpus_where_they_are() -> None:
    node = Node("n1", 8, Bytes(513 * 10**9), "H100")
    run = Rehearsal(competition(nodes=(node,)))
    run.exit(run.submit(gpus=2))
    text = render(compose(gather(run.rows, Asked(), UTC)), SKIN)
    assert "GPU-time" in text
    assert "slot" not in look(text).all("main")[0].text.lower()


def test_s11_every_count_has_a_definition_on_hover_and_in_the_file() -> None:
    heads = {
        one.text: one.attributes.get("title", "") for one in section("pocket", "board").all("th") if one.text
    }
    assert heads["Jobs"] == "Every job submitted, tests and failed ones too"
    assert heads["Nom."] == "Every request, whatever became of it"
    terms = [one.text for one in section("pocket", "method").all("dt")]
    assert {
        "API spent",
        "Slot-time",
        "Jobs",
        "Nominations",
        "Current",
        "Even pace",
        "Wait",
        "Steps",
        "Refused",
    } <= set(terms)


def test_s10_s88_totals_are_the_ledgers_and_the_rounding_is_stated() -> None:
    """Rows of $0.02, $0.01 and $0.10 add up to 0.13 as printed; the total is 0.12, exactly $0.119, and a note says why."""
    board = section("pocket", "board", MID)
    total = board.all("tfoot")[0].all("td")
    assert total[0].text == "$0.12"
    notes = " ".join(one.text for one in board.all("p", "note"))
    assert "exactly $0.119000000 of API credit and 98.000000 slot-s" in notes
    assert "The printed rows of API spent add up to $0.13: each is rounded on its own." in notes


def test_s53_s58_before_joining_cells_are_blank_not_nought() -> None:
    row = next(one for one in section("pocket", "board", MID).all("tr") if "Heron" in one.text)
    assert [one.text for one in row.all("td")] == ["", "", "", "", "", "not started"]
    assert "Starts T+0:01:15" in row.text
    part = next(one for one in section("pocket", "agents", MID).all("article") if "Heron" in one.text)
    assert "Not started in this window." in part.text
    assert not part.all("dl")


def test_s87_starts_of_their_own_have_a_column() -> None:
    board = section("pocket", "board")
    assert board.all("th")[1].text == "Start"
    starts = {
        row.all("th")[0].text.split()[1]: row.all("td")[0].text for row in board.all("tbody")[0].all("tr")[:4]
    }
    assert starts["Heron"] == "T+0:01:16"
    assert starts["Careful"] == "T+0:00:00"
    assert "Start" not in [one.text for one in section("complete", "board").all("th")]


def test_s01_after_the_snapshot_has_its_own_section_and_no_other_place() -> None:
    later = section("pocket", "later", MID)
    assert "B-n1 is copied: a full model." in later.text
    assert not [one for one in page("pocket").all("section") if one.attributes["id"] == "later"]
    rest = [one.text for one in page("pocket", MID).all("section") if one.attributes["id"] != "later"]
    assert not any("C-n2" in text for text in rest)


def test_s86_an_agent_s_part_tells_the_window_s_spending_and_the_whole_apart() -> None:
    """Stumbler's second minute: $0.049 of $0.1468 in all, and both lead to their own rows."""
    asked = Asked(since="T+0:01:00", until="T+0:02:00")
    facts = facts_of("pocket", asked)
    seat = facts.corner("C")
    assert seat.api is not None
    part = next(one for one in section("pocket", "agents", asked).all("article") if "Stumbler" in one.text)
    assert (
        f"{show_dollars(seat.api.posted)} in this window; {show_dollars(seat.api.spent)} of $0.50 since its start"
        in part.text
    )
    assert 0 < seat.api.posted < seat.api.spent
    assert set(seat.api.rows(facts.window.since)) < set(seat.api.rows())


def test_s46_done_is_said_with_its_time() -> None:
    row = next(one for one in section("pocket", "board").all("tr") if "Careful" in one.text)
    assert "Done T+0:02:30" in row.text
    assert not row.all(style="ahead")


def test_s29_no_own_test_is_shown_or_compared() -> None:
    """The record has none; the page sorts by the exam alone."""
    ranks = [
        row.all("span", "rank")[0].text for row in section("pocket", "board").all("tbody")[0].all("tr")[:4]
    ]
    assert ranks == ["1", "2", "3", "4"]
    assert "own test" not in page("pocket").text.lower()


def test_it_can_be_read_without_script_and_by_ear() -> None:
    whole = page("pocket")
    assert whole.all("html")[0].attributes["lang"] == "en"
    assert [one.tag for one in whole.all() if one.tag in ("h1", "h2")].count("h1") == 1
    for strip in whole.all("div", "strip"):
        assert strip.attributes["aria-label"]
    for mark in whole.all("a", "dot"):
        assert mark.attributes["aria-label"]


def test_the_same_facts_and_skin_give_the_same_bytes() -> None:
    rows = rows_of("pocket")
    again = [render(compose(gather(rows, MID, UTC)), SKIN) for _ in range(2)]
    assert again[0] == again[1] == html("pocket", MID)


def test_a_skin_of_one_s_own_is_all_that_rendering_needs() -> None:
    skin = Skin((Template("report.html", "{{ page.head }}|{{ facts.run }}"),), "")
    compose(facts_of("pocket"))  # what is imported on use is imported now
    render(compose(facts_of("pocket")), skin)
    facts = facts_of("pocket")
    with sealed():
        text = render(compose(facts), skin)
    assert (
        text == "Careful comes first with 63.6\u00a0%, 13.9 points above the base model.|rehearsal-00000000"
    )


def test_a_window_before_the_start_is_a_page_too() -> None:
    text = html("complete", Asked(until="T+0:00"))
    assert "It hasn’t started yet." in text
    assert "No detector saw anything to tell of." in text

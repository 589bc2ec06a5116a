"""Hostile text is shown, whole and inert (F51)."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.pages.scene import HOSTILE, TOKEN

from palestra.events.masking import Secret
from palestra.web.pages.text import line, show, show_tail, visible

OURS = re.compile(r'<b class="(?:ctl|tok|msk)"(?: title="[^"<>]*")?>|</b>')


def plain(markup: str) -> str:
    """What a reader sees: our own chips' tags taken away, the rest unescaped."""
    return html.unescape(OURS.sub("", markup))


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("a \"quoted\" 'name'", "a \"quoted\" 'name'"),
        ("\x1b[31mred\x1b[0m", "ESC[31mredESC[0m"),
        (
            "\x1b]8;;javascript:alert(1)\x1b\\text\x1b]8;;\x1b\\",
            "ESC]8;;javascript:alert(1)ESC\\textESC]8;;ESC\\",
        ),
        ("\x1b[2J\x1b[1;1H\x07", "ESC[2JESC[1;1HBEL"),
        ("abc\u202ecba\u202c", "abcU+202EcbaU+202C"),
        ("zero\u200bwidth\ufeff", "zeroU+200BwidthU+FEFF"),
        ("tag\U000e0041", "tagU+E0041"),
        ("one\r\ntwo\rthree", "one\ntwoCR\nthree"),
        ("\x00\x7f\x9b", "NULDELU+009B"),
        ("lone \ud800", "lone U+D800"),
        ("<|im_end|> and </s>", "<|im_end|> and </s>"),
        ("{{ 7*7 }} {% raw %}", "{{ 7*7 }} {% raw %}"),
    ],
)
def test_it_is_seen_as_it_is(written: str, seen: str) -> None:
    """F51."""
    assert plain(visible(written)) == seen


@given(
    st.text(alphabet=st.one_of(st.characters(), st.sampled_from("<>&\"'\x1b[]\\;\r\n\u202e|")), max_size=300)
)
def test_no_text_makes_a_tag_or_hides_a_character(text: str) -> None:
    """F51."""
    markup = OURS.sub("", str(visible(text)))
    assert "<" not in markup and ">" not in markup and '"' not in markup and "'" not in markup
    seen = html.unescape(markup)
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", seen
    )


def test_a_megabyte_on_one_line_is_cut_and_says_so() -> None:
    """F51."""
    shown = show("x" * 1_000_000 + "end", ())
    assert len(shown.head) + len(shown.tail) <= 6_000
    assert shown.left_out == "994,003 characters" and shown.tail.endswith("end")


def test_many_lines_are_cut_in_the_middle() -> None:
    shown = show("\n".join(map(str, range(1_000))), (), lines=40)
    assert shown.left_out == "960 lines"
    assert shown.head.splitlines()[-1] == "29" and shown.tail.splitlines()[0] == "990"


@pytest.mark.parametrize("place", [4_480, 4_490, 4_499, 4_510])
def test_no_half_of_a_secret_stands_at_a_cut(place: int) -> None:
    """S51: the text is cut where the token stands."""
    text = "y" * place + TOKEN + "z" * 20_000
    shown = show(text, (Secret(TOKEN),))
    assert not any(TOKEN[:n] in shown.head for n in range(3, len(TOKEN)))


def test_the_end_of_a_log_begins_with_a_whole_line() -> None:
    text = "".join(f"line {n}\n" for n in range(5_000))
    shown = show_tail(text, (), limit=1_000, lines=200)
    assert shown.head.startswith("line ") and shown.head.splitlines()[-1] == "line 4999"


def test_a_name_is_one_short_line() -> None:
    assert len(plain(line(HOSTILE * 50, (), 60))) < 200

"""What may be said of an event in public: little by default, never a secret, never a sealed name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.pages.scene import API_KEY, SEALED, TOKEN, Scene

from palestra.events.base import Entry, Event
from palestra.events.codec import KINDS, read_entry
from palestra.events.corners import EntrantAnnounced, TokenRotated
from palestra.events.masking import Secret, mask, mask_end
from palestra.events.public import PublicEvent, Roster, publish
from palestra.events.runs import AlarmRaised, Paused, RunOpened, TailRepaired
from palestra.rules.units import Moment

TOLD = {
    "AttemptEnded", "AttemptStarted", "CallCharged", "CheckpointSealed", "CopyFailed", "CopyKept", "EndAsked", "EntrantAnnounced",
    "EntrantFinished", "EntrantRemoved", "EntrantSeated", "ExamFailed", "ExamScored", "ExamStarted", "JobEnded", "JobSubmitted",
    "NominationAccepted", "NominationRejected", "NominationRequested", "NominationWithdrawn", "Paused", "RefusalsCounted", "Refused",
    "ReportFrozen", "RestartAsked", "Resumed", "ServerStarted", "ServerStopped", "SessionEnded", "SessionStarted", "StageEntered",
    "WaitChanged",
}  # fmt: skip
"""Everything else is denied. A new kind is told to nobody until it is written down here and in `publish`."""
NAMES = (Secret(SEALED[0], "Owl", name=True), Secret(SEALED[1], "Owl", name=True))
ROSTER = Roster((("A", "Careful"), ("D", "Owl")), (Secret(TOKEN), *NAMES), "slot")


def published(*scenes: Scene) -> list[PublicEvent]:
    rows = [row for scene in scenes for row in scene.run.rows]
    return [told for row in rows if (told := publish(read_entry(row), ROSTER)) is not None]


def entry(event: Event) -> Entry:
    return Entry(7, Moment(0), "world", None, event)


def test_only_the_kinds_written_down_here_are_ever_told() -> None:
    told = {event.kind for event in published(Scene("results"))}
    assert told <= TOLD
    assert KINDS.keys() >= TOLD
    for kind in (
        AlarmRaised("disk:server", "91 % full"),
        TokenRotated("A", "organiser:one"),
        TailRepaired(3, "x"),
    ):
        assert publish(entry(kind), ROSTER) is None


class Unheard(Event, frozen=True):
    """A kind of a later release."""

    corner: str


def test_an_unknown_kind_is_denied() -> None:
    assert publish(entry(Unheard("A")), ROSTER) is None


def test_organisers_names_and_reasons_are_not_told() -> None:
    told = publish(entry(Paused("organiser:one", "the landlord is here")), ROSTER)
    assert told is not None
    assert "one" not in told.text.split() and "landlord" not in told.text
    soon = EntrantAnnounced("E", "Grey Heron", "", "house", "small", Moment(0), "organiser:one")
    told = publish(entry(soon), ROSTER)
    assert told is not None and told.text == "Grey Heron will take corner E." and told.corner == ""


def test_rules_and_reservations_stay_in_the_record() -> None:
    kinds = {event.kind for event in published(Scene("results"))}
    assert RunOpened.__name__ not in kinds and "CallReserved" not in kinds


def test_the_arenas_own_jobs_tell_only_what_they_are_for() -> None:
    house = [event for event in published(Scene("results")) if event.corner == "house" and event.text]
    assert house and all("validates" in event.text for event in house)


def test_the_exams_seed_is_not_told() -> None:
    assert not [event for event in published(Scene("results")) if "5eed" in event.text]


def test_a_job_that_prints_its_token_is_masked_in_the_stream() -> None:
    """S51."""
    said = "\n".join(event.text for event in published(Scene("running")))
    assert TOKEN not in said and API_KEY not in said


def test_an_alias_holds_in_the_stream() -> None:
    """S57."""
    said = "\n".join(event.text for event in published(Scene("results"))).lower()
    assert not [name for name in SEALED if name.lower() in said]


# Masking


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        TOKEN[:9] + "\n" + TOKEN[9:],
        "".join(f"{c}\u200b" for c in TOKEN),
        TOKEN[:5] + "\x1b[31m" + TOKEN[5:],
        f"Bearer {TOKEN}",
        TOKEN[:3] + "\u202e" + TOKEN[3:],
    ],
)
def test_a_known_token_is_found_whatever_is_written_between_its_characters(written: str) -> None:
    """S51."""
    kept = mask(f"before {written} after", (Secret(TOKEN),))
    assert kept.startswith("before ") and kept.endswith(" after")
    assert TOKEN[:12] not in "".join(c for c in kept if c.isalnum() or c == "_")
    assert TOKEN[-8:] not in "".join(c for c in kept if c.isalnum() or c == "_")


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-Zx81kd93kdkLa02ksl19",
        "hf_abcdefGHIJKLMNOP1234",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        "xoxb-123456789012-abcdefGHIJKL",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc123",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "https://me:hunter2hunter2@host.example/x",
        "api_key = 'q8w7e6r5t4y3u2i1o0pa'",
        "Authorization: Bearer 9f8e7d6c5b4a39281706f5e4",
    ],
)
def test_what_looks_like_a_key_is_masked(key: str) -> None:
    """S51."""
    assert "[masked]" in mask(f"x {key} y", ())


@pytest.mark.parametrize(
    "plain",
    [
        "token budget: 300000 tokens left",
        "sha256:60c5590f72ee0123456789abcdef60c5590f72ee0123456789abcdefffcafaa1",
        "the secret is careful_cleaning_of_the_training_data",
        "python -m kit.sft --out sk-learn/model",
        "https://host.example/a:b@c",
    ],
)
def test_plain_words_stay(plain: str) -> None:
    assert mask(plain, (Secret(TOKEN),)) == plain


@pytest.mark.parametrize(
    "written",
    ["Grand Secret Nine", "grand-secret-nine", "GRAND_SECRET_NINE", "grandsecretnine", "Grand  Secret\nNine"],
)
def test_a_sealed_name_becomes_its_alias_however_it_is_written(written: str) -> None:
    """S57."""
    assert mask(f"I am {written}!", NAMES) == "I am Owl!"


def test_a_short_sealed_name_is_only_a_word_of_its_own() -> None:
    names = (Secret("Pi 3", "Owl", name=True),)
    assert mask("pi-3 and pick 3 and api 3", names) == "Owl and pick 3 and api 3"


@given(st.text(max_size=40), st.integers(0, len(TOKEN)), st.text(max_size=40))
def test_a_token_is_gone_wherever_it_stands(before: str, kept: int, after: str) -> None:
    """S51: also when a growing text ends in the middle of it."""
    assert TOKEN not in mask(before + TOKEN + after, (Secret(TOKEN),))
    ending = mask_end(before + TOKEN[:kept], (Secret(TOKEN),))
    assert kept < 4 or kept == len(TOKEN) or not ending.endswith(TOKEN[:kept])

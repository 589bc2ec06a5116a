"""S57: a lab under an alias stays unnamed in everything that a run puts down outside its secrets."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import msgspec
import pytest
from tests.runtime.opening import opened, write_competition

from palestra.events.codec import read_entry
from palestra.events.corners import EntrantSeated
from palestra.rules.errors import BadInput, Refusal
from palestra.rules.read import read_competition
from palestra.runtime.opening import read_source, refuse_edited
from palestra.runtime.sealing import public_text
from palestra.runtime.seats import SALTS

ALIASED = """
[[entrants]]   # Nightjar is Maple Tree's agent by Oak & Sons
name = "Maple Tree"
lab = 'Oak & Sons'
alias = "Nightjar"
harness = "command"
command = ["sleep", "600"]
"""
NAMES = (b"Maple Tree", b"Oak & Sons")


def test_the_true_name_is_nowhere_outside_secrets(tmp_path: Path) -> None:
    run = opened(tmp_path, write_competition(tmp_path, ALIASED))
    for row in run.rows:
        body = (
            msgspec.json.encode(read_entry(row).event) + row.body + row.subject.encode() + row.actor.encode()
        )
        assert not any(name in body for name in NAMES), row
    for digest in (run.opened.competition, run.opened.terms, run.opened.exam_program):
        assert not any(name in run.record.open(digest) for name in NAMES)
    for path in run.folder.path.rglob("*"):
        if path.is_file() and run.folder.secrets not in path.parents:
            assert not any(name in path.read_bytes() or name.decode() in str(path) for name in NAMES), path
    assert (run.folder.secrets / "competition.toml").read_bytes() == run.source.text


def test_the_seat_carries_alias_and_commitment_and_the_salt_opens_it(tmp_path: Path) -> None:
    run = opened(tmp_path, write_competition(tmp_path, ALIASED))
    seat = next(
        event
        for row in run.rows
        if isinstance(event := read_entry(row).event, EntrantSeated) and event.sealed_name
    )
    assert (seat.name, seat.lab) == ("Nightjar", "")
    salts = msgspec.json.decode(run.folder.read_secret(SALTS), type=dict[str, str])
    assert list(salts) == ["Nightjar"] and len(salts["Nightjar"]) == 32
    text = f"{salts['Nightjar']}\nMaple Tree\nOak & Sons"
    assert seat.sealed_name == hashlib.sha256(text.encode()).hexdigest()
    wrong = f"{salts['Nightjar']}\nMaple Tree\n"
    assert seat.sealed_name != hashlib.sha256(wrong.encode()).hexdigest()


def test_a_sealed_competition_can_go_on_and_its_edits_are_noticed(tmp_path: Path) -> None:
    source = write_competition(tmp_path, ALIASED)
    run = opened(tmp_path, source)
    refuse_edited(run.folder, run.folder.read(), run.opened.competition)
    source.write_text(source.read_text().replace('title = "Small"', 'title = "Large"'))
    with pytest.raises(Refusal) as told:
        refuse_edited(run.folder, run.folder.read(), run.opened.competition)
    assert f"it is kept as {run.folder.secrets / 'competition.toml'}" in str(told.value)
    source.write_text("this isn't TOML any more")
    with pytest.raises(Refusal, match="was edited since"):
        refuse_edited(run.folder, run.folder.read(), run.opened.competition)


def test_without_an_alias_the_text_is_kept_as_it_is(tmp_path: Path) -> None:
    source = read_source(write_competition(tmp_path))
    assert source.public == source.text


@pytest.mark.parametrize(
    ("entrant", "public"),
    [
        ('name = "Elm"\nalias = "Owl"', 'name = "Owl"\nalias = "Owl"'),
        ('name = "\\u0045lm"\nalias = "Owl"', 'name = "Owl"\nalias = "Owl"'),
        ("name = 'Elm'  # Elm, Elmwood\nalias = \"Owl\"", 'name = "Owl"  # Owl, Elmwood\nalias = "Owl"'),
        ('name = "Elm"\nlab = "Elm Lab"\nalias = "Owl"', 'name = "Owl"\nlab = "Owl"\nalias = "Owl"'),
        ('name = "Elm"\nlab = ""\nalias = "Owl"', 'name = "Owl"\nlab = ""\nalias = "Owl"'),
        ('name = "name"\nalias = "O\\"wl"', 'name = "O\\"wl"\nalias = "O\\"wl"'),
    ],
)
def test_texts_made_public(entrant: str, public: str) -> None:
    assert public_text(f"[[entrants]]\n{entrant}\n".encode()).decode() == f"[[entrants]]\n{public}\n"


def test_inline_tables_and_other_entrants(tmp_path: Path) -> None:
    text = 'x = "Elm."\nentrants = [{name = "Elm", alias = "Owl"}, {name = "Elm tree"}]\n[y]\nz = """\nsaid Elm\n"""\n'
    public = tomllib.loads(public_text(text.encode()).decode())
    assert public == {
        "x": "Owl.",
        "entrants": [{"name": "Owl", "alias": "Owl"}, {"name": "Owl tree"}],
        "y": {"z": "said Owl\n"},
    }


def test_a_name_that_cannot_be_taken_out_is_refused() -> None:
    with pytest.raises(BadInput) as told:
        public_text(b'[[entrants]]\nname = """\nEl\\\n  m"""\nalias = "Owl"\n')
    assert str(told.value) == (
        "entrants[0].name: 'a name to be sealed' can't be read; a name to be sealed must be plain text in quotes, on one line"
    )


@pytest.mark.parametrize("text", [b"entrants = 3", b'entrants = [3, {alias = 5}, {alias = "x", name = 3}]'])
def test_odd_entrants_are_left_as_they_are(text: bytes) -> None:
    assert public_text(text) == text


@pytest.mark.parametrize("text", [b"\xff", b"a = "])
def test_what_is_no_toml(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"invalid|Invalid"):
        public_text(text)


def test_what_goes_on_the_record_can_be_read_as_a_competition_again(tmp_path: Path) -> None:
    """An alias in place of its own entrant's name isn't a second entrant of that name: the live page reads it so."""
    source = read_source(write_competition(tmp_path, ALIASED))
    public = read_competition(source.public.decode(), zones=frozenset({"UTC"}))
    assert [(rule.name, rule.alias) for rule in public.entrants] == [("Nightjar", "Nightjar")]

"""`palestra report RUN`: from a folder's journal alone to a file and its key findings, or one sentence on what is wrong."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.report.folders import write_run
from tests.report.reading import rows_of

from palestra.cli.main import FAILED, FATAL, OK, run
from palestra.events.codec import read_entry
from palestra.events.masking import Secret
from palestra.events.runs import RunOpened
from palestra.report.findings import Finding
from palestra.report.window import Asked
from palestra.rules.read import read_competition
from palestra.rules.units import DAY, HOUR, Moment
from palestra.runtime.opening import NAMED
from palestra.runtime.reports import write_report
from palestra.runtime.seats import NAMES
from palestra.runtime.skins import load_zone
from palestra.runtime.withheld import withheld


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows_of("pocket")).path


def test_it_writes_the_page_and_prints_its_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(folder)]) == OK
    said = capsys.readouterr().out
    path = folder / "reports" / "whole-run.html"
    assert said.splitlines()[0] == "Rehearsal: the whole run, as of T+0:09:00, row 166"
    assert "- Careful comes first with 63.6\u00a0%, 13.9 points above the base model." in said
    assert said.splitlines()[-1] == f"report: {path}"
    assert path.read_text().startswith("<!doctype html>")
    assert list((folder / "reports").iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "name", "at"),
    [
        (["--from", "T+0:00", "--to", "T+0:01:10"], "t00000-to-t00110.html", "T+0:01:10"),
        (["--from", "T+0:02"], "t00200-on.html", "T+0:09:00"),
        (["--day", "1"], "day-1.html", "T+0:09:00"),
        (["--upto", "70"], "whole-run.html", "T+0:01:16"),
    ],
)
def test_any_window_has_a_name_and_an_instant(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], name: str, at: str
) -> None:
    assert run(["report", str(folder), *options]) == OK
    assert f"as of {at}," in capsys.readouterr().out.splitlines()[0]
    assert (folder / "reports" / name).exists()


def test_it_goes_where_it_is_told(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.html"
    assert run(["report", str(folder), "--out", str(out)]) == OK
    assert "Careful" in out.read_text()
    assert list((folder / "reports").iterdir()) == []


def test_findings_as_json_lines_have_figures_with_units_and_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(folder), "--json"]) == OK
    found = [msgspec.json.decode(line, type=Finding) for line in capsys.readouterr().out.splitlines()]
    assert found[0].kind == "result"
    assert (found[0].figure("share").amount, found[0].figure("share").whole) == (636, 1_000)
    assert all(one.version >= 1 and one.figures for one in found)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "2:00"], "--from: '2:00' can't be read; hours and minutes since the start"),
        (["--day", "2"], "the record ends at T+0:09:00, before the window begins"),
        (["--out", "/nowhere/report.html"], "a file in a folder that is there; /nowhere isn't"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert run(["report", str(folder), *options]) == FAILED
    assert said in capsys.readouterr().err


def test_a_record_that_was_altered_is_not_reported_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(folder / "journal.db") as book:
        book.execute(
            "UPDATE journal SET body = CAST(replace(CAST(body AS TEXT), 'Careful', 'Careles') AS BLOB) WHERE seq = 2"
        )
    book.close()
    assert run(["report", str(folder)]) == FATAL
    assert "the record contradicts itself" in capsys.readouterr().err
    assert list((folder / "reports").iterdir()) == []


def test_a_folder_that_is_no_run_or_has_no_rows_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(tmp_path)]) == FAILED
    assert "a run's folder" in capsys.readouterr().err
    empty = write_run(tmp_path / "empty", [])
    assert run(["report", str(empty.path)]) == FAILED
    assert "its journal has no rows yet" in capsys.readouterr().err


def test_the_function_for_the_end_of_a_run_gives_the_path(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows_of("complete"))
    path = write_report(folder)
    assert path == folder.reports / "whole-run.html"
    assert write_report(folder, Asked(day=1)) == folder.reports / "day-1.html"
    again = path.read_bytes()
    assert write_report(folder).read_bytes() == again


def test_what_must_not_be_shown_is_read_from_the_folder(tmp_path: Path) -> None:
    """Tokens, the folder's own place, the names behind aliases given at the start and later."""
    folder = write_run(tmp_path / "run", rows_of("joined"))
    folder.write_secret("tokens.json", b'{"A": "token-of-A-0123456789"}')
    folder.write_secret(NAMES, b'{"Heron": ["Blue Machine", "Sea Lab"]}')
    opened = read_entry(rows_of("joined")[0]).event
    assert isinstance(opened, RunOpened)
    found = withheld(folder, opened.rules)
    assert Secret("token-of-A-0123456789") in found
    assert Secret(str(folder.path), "[run]") in found
    assert Secret("Blue Machine", "Heron", name=True) in found
    written = (Path(__file__).parents[1] / "rules" / "whole.toml").read_bytes()
    folder.write_secret(NAMED, written)
    rules = read_competition(written.decode(), zones=frozenset({"Europe/Berlin"}))
    sealed = [one for one in rules.entrants if one.alias]
    assert sealed
    found = withheld(folder, replace(opened.rules, zone=rules.zone))
    assert Secret(sealed[0].name, sealed[0].alias, name=True) in found


def test_a_zone_s_changes_are_found_to_the_second() -> None:
    """Los Angeles leaves summer time on 1 November 2026 at 09:00 UTC; Lord Howe moves by half an hour."""
    since = Moment(1_793_000_000_000_000)
    zone = load_zone("America/Los_Angeles", since, since + 10 * DAY)
    change = Moment(1_793_523_600_000_000)
    assert zone.show(change - 1, seconds=True) == "1 November 2026, 01:59:59 PDT"
    assert zone.show(change) == "1 November 2026, 01:00 PST"
    assert load_zone("UTC", since, since + HOUR).show(since, seconds=True) == "26 October 2026, 07:33:20 UTC"
    howe = load_zone("Australia/Lord_Howe", since, since + DAY)
    assert {one.ahead for one in howe.changes} >= {37_800, 39_600}

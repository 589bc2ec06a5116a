"""The pocket arena as `./dev demo` runs it, to its scored end."""

from pathlib import Path

import msgspec
import pytest
from tests.e2e.arena import QUICK, Finished, palestra

from palestra.report.scoreboard import Scoreboard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1900)]


def read_board(pocket: Finished) -> Scoreboard:
    return msgspec.json.decode((pocket.folder / "reports" / "scoreboard.json").read_bytes(), type=Scoreboard)


def test_the_nominated_model_beats_the_base_by_more_than_the_intervals(pocket: Finished) -> None:
    """Issue 2, done when: at least 1,000 hidden questions, and intervals that don't touch. S53, S58: a scored end by itself."""
    assert pocket.exit_code == 0, pocket.said
    assert "Traceback" not in pocket.said
    board = read_board(pocket)
    best = board.lines[0]
    assert board.stage == "results"
    assert board.base is not None
    assert best.score is not None
    assert best.rank == 1
    assert best.score.n == board.base.n >= 1000
    assert best.score.low > board.base.high


def test_every_line_has_its_score_and_what_it_cost(pocket: Finished) -> None:
    """S114: score with interval, credit and GPU-time within their limits; totals are the ledger's."""
    board = read_board(pocket)
    for line in board.lines:
        assert line.score is not None, line.unscored_because
        assert line.current
        assert line.kind in ("lora", "full")
        assert 0 < line.api_spent < line.api_limit
        assert 0 < line.gpu_spent < line.gpu_limit
    assert board.api_spent == sum(line.api_spent for line in board.lines)
    assert board.gpu_spent == sum(line.gpu_spent for line in board.lines)


def test_what_is_printed_at_the_end_is_the_frozen_scoreboard(pocket: Finished) -> None:
    """Also by `status` later; slots and isolation are told as they are."""
    score = read_board(pocket).lines[0].score
    assert score is not None
    assert f"{score.correct:,} of {score.n:,}" in pocket.said
    assert "GPUs here are slots; isolation: none." in pocket.said
    told = palestra("status", pocket.folder)
    assert told.returncode == 0
    assert f"{score.correct:,} of {score.n:,}" in told.stdout
    assert "this run is over" in told.stdout


def test_verify_says_ok(pocket: Finished) -> None:
    """Chain, ledgers, bodies, steps, files, scores and scoreboard, from the folder alone."""
    checked = palestra("verify", pocket.folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    scored = ["base", *(line.current for line in read_board(pocket).lines)]
    assert sorted(line.partition(":")[0] for line in checked.stdout.splitlines()) == sorted(
        [
            *(f"ok      {name}" for name in ("chain", "ledgers", "bodies", "steps", "files", "scoreboard")),
            *(f"ok      score of {target}" for target in scored),
            "ok",
        ]
    )


def test_a_finished_run_is_shown_again_and_not_run_again(pocket: Finished) -> None:
    """`palestra run` on a run with results leaves at once, with the same scoreboard; nothing but its presence is journalled."""
    again = palestra("run", "--runs", pocket.folder.parent, "--run", pocket.folder.name, "--until-end")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.splitlines()[-6:-2] == pocket.said.splitlines()[-6:-2]
    assert palestra("verify", pocket.folder).returncode == 0


def test_an_edited_competition_is_refused(pocket: Finished) -> None:
    """Design 5: a run's rules don't change by editing; one sentence, and nothing is journalled. So is another competition."""
    toml = pocket.competition / "competition.toml"
    text, rows = toml.read_text(), (pocket.folder / "journal.db").stat().st_mtime_ns
    run = ("run", "--runs", pocket.folder.parent, "--run", pocket.folder.name)
    try:
        toml.write_text(text.replace('running = "', 'running = "1'))
        edited = [palestra(*run), palestra("run", pocket.competition, *run[1:])]
    finally:
        toml.write_text(text)
    for refused in (*edited, palestra("run", QUICK, *run[1:])):
        assert refused.returncode == 1
        assert refused.stderr.startswith("palestra: ")
        assert refused.stderr.count("\n") == 1
    assert all("was edited since" in refused.stderr for refused in edited)
    assert (pocket.folder / "journal.db").stat().st_mtime_ns == rows
    assert palestra("verify", pocket.folder).returncode == 0


def test_a_run_without_its_run_file_is_not_opened_anew(pocket: Finished, copy: Path) -> None:
    """The journal of a run that was served is never moved out of the way."""
    (copy / "run.toml").unlink()
    held = sorted(path.name for path in copy.iterdir())
    refused = palestra("run", pocket.competition, "--runs", copy.parent, "--run", copy.name)
    assert refused.returncode == 1
    assert "holds the journal of a run, but its run.toml is gone" in refused.stderr
    assert sorted(path.name for path in copy.iterdir()) == held

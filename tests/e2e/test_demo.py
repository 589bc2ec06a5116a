"""The pocket arena as `./dev demo` runs it, to its scored end."""

import msgspec
import pytest
from tests.e2e.arena import palestra
from tests.e2e.conftest import Finished

from palestra.report.scoreboard import Scoreboard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1900)]


def test_the_nominated_model_beats_the_base_by_more_than_the_intervals(pocket: Finished) -> None:
    """Issue 2, done when: at least 1,000 hidden questions, and intervals that don't touch. S53, S58: a scored end by itself."""
    assert pocket.exit_code == 0, pocket.said
    assert "Traceback" not in pocket.said
    board = msgspec.json.decode((pocket.folder / "reports" / "scoreboard.json").read_bytes(), type=Scoreboard)
    (line,) = board.lines
    assert board.stage == "results"
    assert board.base is not None
    assert line.score is not None
    assert line.score.n == board.base.n >= 1000
    assert line.score.low > board.base.high
    assert (line.rank, line.current, line.kind, line.nominations) == (1, "A-n2", "lora", 2)
    assert 0 < line.api_spent == board.api_spent < line.api_limit
    assert 0 < line.gpu_spent == board.gpu_spent < line.gpu_limit


def test_what_is_printed_at_the_end_is_the_frozen_scoreboard(pocket: Finished) -> None:
    """S114: score with interval, credit and GPU-time spent, jobs, nominations; slots and isolation are told as they are."""
    board = msgspec.json.decode((pocket.folder / "reports" / "scoreboard.json").read_bytes(), type=Scoreboard)
    score = board.lines[0].score
    assert score is not None
    assert f"{score.correct:,} of {score.n:,}" in pocket.said
    assert "GPUs here are slots; isolation: none." in pocket.said
    told = palestra("status", pocket.folder)
    assert told.returncode == 0
    assert f"{score.correct:,} of {score.n:,}" in told.stdout
    assert "no server is up" in told.stdout


def test_verify_says_ok(pocket: Finished) -> None:
    """Chain, ledgers, bodies, steps, files, scores and scoreboard, from the folder alone."""
    checked = palestra("verify", pocket.folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert [line.split(":")[0] for line in checked.stdout.splitlines()] == [
        *("ok      chain", "ok      ledgers", "ok      bodies", "ok      steps", "ok      files"),
        *("ok      score of base", "ok      score of A-n2", "ok      scoreboard"),
        "ok",
    ]


def test_a_finished_run_is_shown_again_and_not_run_again(pocket: Finished) -> None:
    """`palestra run` on a run with results leaves at once, with the same scoreboard; nothing but its presence is journalled."""
    again = palestra("run", "--runs", pocket.folder.parent, "--run", pocket.folder.name, "--until-end")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.splitlines()[-6:-3] == pocket.said.splitlines()[-6:-3]
    assert palestra("verify", pocket.folder).returncode == 0

"""Entrants that join, leave or are started anew while the run goes on."""

from __future__ import annotations

from tests.building import START, Rehearsal, competition

from palestra.events.corners import EntrantAnnounced, EntrantSeated, SessionStarted
from palestra.referee.observations import SessionExited
from palestra.referee.requests import AddEntrant, Finish, Nominate, RemoveEntrant, RestartEntrant, RotateToken
from palestra.referee.rulings import next_due
from palestra.report.scoreboard import scoreboard
from palestra.rules.units import HOUR, MINUTE, Moment
from palestra.state.arena import Account
from palestra.state.clock import stage_end

BY = "organiser:me"


def late(name: str = "Latecomer", starts: int = START, model: str = "small", **more: str) -> AddEntrant:
    return AddEntrant(BY, None, name, "Late Lab", "house", model, Moment(starts), **more)  # type: ignore[arg-type]


def test_s53_a_late_joiner_has_its_own_start_the_same_allowances_and_the_common_end() -> None:
    run = Rehearsal(competition(running=144 * HOUR))
    end = stage_end(run.state)
    run.until(START + 47 * HOUR + 58 * MINUTE)
    starts = START + 47 * HOUR + 59 * MINUTE
    assert run.grant(late(starts=starts)) == "C"
    assert run.last(EntrantAnnounced).starts == starts
    assert "C" not in run.state.corners
    assert next_due(run.state) == starts
    run.until(starts)
    assert (run.last(EntrantSeated).corner, run.last(SessionStarted).corner) == ("C", "C")
    assert run.state.corners["C"].seated == starts
    assert run.account("C", "api") == Account(run.account("A", "api").limit)
    assert stage_end(run.state) == end
    assert end is not None and end - starts == 96 * HOUR + MINUTE


def test_s58_before_it_starts_it_is_announced_and_has_no_account_yet() -> None:
    run = Rehearsal()
    run.grant(late(starts=START + HOUR))
    assert list(run.state.announced) == ["C"]
    assert ("C", "api") not in run.state.accounts
    assert [line.corner for line in scoreboard(run.state, run.book.catalog).lines] == ["A", "B"]


def test_a_start_in_the_past_is_now() -> None:
    run = Rehearsal()
    run.wait(HOUR)
    run.grant(late(starts=START))
    assert run.state.corners["C"].seated == START + HOUR


def test_letters_are_never_given_out_twice() -> None:
    run = Rehearsal()
    run.grant(late(starts=START + HOUR))
    run.grant(RemoveEntrant(BY, None, "C", "withdrawn"))
    assert run.grant(late(starts=START + HOUR)) == "D"
    run.restart()
    assert run.grant(late("Another")) == "E"


def test_who_cannot_join_is_told_why() -> None:
    run = Rehearsal(competition(running=HOUR))
    assert run.refuse(late("agent ONE")).code == "name_taken"
    assert run.refuse(late(model="large")).code == "unknown_model"
    assert run.refuse(late(starts=START + HOUR)).code == "too_late"
    run.until(START + HOUR)
    assert run.refuse(late()).code == "stage_over"


def test_the_stage_waits_for_an_announced_entrant() -> None:
    run = Rehearsal(competition(end_when_all_finished=True))
    run.grant(late(starts=START + HOUR))
    for corner in "AB":
        run.grant(Finish(corner, None))
    assert run.stage() == "running"
    run.grant(RemoveEntrant(BY, None, "C", "changed their mind"))
    assert run.stage() == "closing"


def test_an_entrant_that_is_taken_out_is_stopped_and_not_judged() -> None:
    run = Rehearsal()
    job = run.submit()
    run.accept(run.nominate("A", "w1"))
    pending = run.nominate("A", "w2")
    run.grant(RemoveEntrant(BY, None, "A", "broke the terms"))
    state = run.state
    assert state.corners["A"].removed
    assert state.attempts[f"{job}.1"].stopping == "stage_end"
    assert state.sessions["A-s1"].stopping
    assert pending not in state.nominations and state.corners["A"].current == ""
    assert run.refuse(RemoveEntrant(BY, None, "A", "again")).code == "removed"
    [line] = [line for line in scoreboard(state, run.book.catalog).lines if line.corner == "A"]
    assert (line.rank, line.unscored_because) == (None, "taken out")


def test_a_new_token_or_an_organisers_wish_starts_the_agent_again() -> None:
    for asked in (RotateToken(BY, None, "A"), RestartEntrant(BY, None, "A", "stuck")):
        run = Rehearsal()
        run.grant(asked)
        assert run.state.sessions["A-s1"].stopping
        run.tell(SessionExited("A-s1", 143, MINUTE))
        run.wait(MINUTE)
        assert "A-s2" in run.state.sessions


def test_a_restart_forgives_what_failed_before() -> None:
    run = Rehearsal()
    for number in range(1, 6):
        run.tell(SessionExited(f"A-s{number}", 1, 1))
        run.wait(5 * MINUTE)
    assert run.state.corners["A"].quick_failures == 5
    run.grant(RestartEntrant(BY, None, "A", "fixed its key"))
    assert run.state.corners["A"].quick_failures == 0


def test_corners_that_do_not_exist_or_have_finished() -> None:
    run = Rehearsal()
    for asked in (
        RemoveEntrant(BY, None, "Z", ""),
        RotateToken(BY, None, "Z"),
        RestartEntrant(BY, None, "Z", ""),
    ):
        assert run.refuse(asked).code == "no_such_corner"
    run.grant(Finish("A", None))
    assert run.refuse(RestartEntrant(BY, None, "A", "")).code == "finished"
    assert run.refuse(Nominate("A", None, "sha256:0", "x", 1, None)).code == "finished"  # type: ignore[arg-type]

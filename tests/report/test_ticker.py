"""One line an event for people who follow a run: what is told, what isn't, and that no agent's text acts on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import FULL, LORA, Rehearsal, competition, digest, spec
from tests.world import play_out

from palestra.events.base import Entry, Event
from palestra.events.codec import KINDS, read_entry
from palestra.events.corners import (
    EntrantAnnounced,
    EntrantFinished,
    EntrantRemoved,
    RestartAsked,
    SessionEnded,
    SessionStarted,
    TokenRotated,
)
from palestra.events.exams import ExamFailed
from palestra.events.jobs import AttemptStarted, JobEnded, JobSubmitted, WaitChanged
from palestra.events.nominations import CopyKept, NominationAccepted, NominationRejected
from palestra.events.runs import AlarmRaised, Paused, Refused, Resumed, TailRepaired
from palestra.referee.requests import Finish, Pause, Resume, SubmitJob
from palestra.report.ticker import sentence
from palestra.report.visible import visible
from palestra.rules.units import MINUTE, Bytes, GpuMicros, Micros, Moment
from palestra.state.queue import HOUSE


def say(event: Event) -> str | None:
    return sentence(Entry(1, Moment(0), "A", None, event))


TOLD: list[tuple[Event, str]] = [
    (Paused("organiser:mara", "a broken cable"), "paused by organiser:mara: a broken cable"),
    (Paused("server", ""), "paused by server"),
    (Resumed("server"), "resumed by server"),
    (TailRepaired(512, "journal.tail-1"), "the journal's end was repaired: 512 bytes of an interrupted write are in journal.tail-1"),
    (SessionStarted("A-s2", "A", "house"), "A starts (A-s2, house)"),
    (SessionEnded("A-s2", "A", 143, "stopped", quick=False), "A session A-s2 stopped"),
    (SessionEnded("A-s2", "A", 3, "exited", quick=True), "A session A-s2 exited, exit code 3"),
    (SessionEnded("A-s2", "A", None, "lost", quick=False), "A session A-s2 lost"),
    (EntrantAnnounced("C", "Owl", "", "house", "small", Moment(9), "organiser:mara"), "C Owl is announced by organiser:mara"),
    (EntrantAnnounced("C", "Owl", "Lab", "house", "small", Moment(9), "organiser:mara"), "C Owl (Lab) is announced by organiser:mara"),
    (EntrantRemoved("C", "organiser:mara", ""), "C is taken out by organiser:mara"),
    (EntrantRemoved("C", "organiser:mara", "left"), "C is taken out by organiser:mara: left"),
    (TokenRotated("C", "organiser:mara"), "C has a new token, by organiser:mara"),
    (RestartAsked("C", "organiser:mara", ""), "C is started anew by organiser:mara"),
    (RestartAsked("C", "organiser:mara", "stuck"), "C is started anew by organiser:mara: stuck"),
    (EntrantFinished("A"), "A has finished"),
    (EntrantFinished("A", "enough"), "A has finished: enough"),
    (Refused("A", "time_over_limit", "time", "time = 5 h; a job may ask for at most 4 h"), "A refused, time_over_limit: time = 5 h; a job may ask for at most 4 h"),
    (AlarmRaised("clock_drift:server", "the wall clock is behind"), "ALARM clock_drift:server: the wall clock is behind"),
    (JobSubmitted("A-j1", "A", spec(gpus=2)), "A submits A-j1 'train': 2 GPUs, 953.7 MiB, at most 1 h"),
    (JobSubmitted("A-j1", "A", spec()), "A submits A-j1 'train': 1 GPU, 953.7 MiB, at most 1 h"),
    (AttemptStarted("A-j1.1", "A-j1", "A", "n1", (0, 3), Bytes(1), Micros(MINUTE), GpuMicros(2 * MINUTE)), "A A-j1.1 runs on n1, GPUs 0, 3"),
    (AttemptStarted("A-j1.1", "A-j1", "A", "n1", (3,), Bytes(1), Micros(MINUTE), GpuMicros(MINUTE)), "A A-j1.1 runs on n1, GPU 3"),
    (WaitChanged("A-j1", "A", "memory", ("B-j1", "B-j2")), "A A-j1 waits for memory, held by B-j1, B-j2"),
    (WaitChanged("A-j1", "A", "paused", ()), "A A-j1 waits: the competition is paused"),
    (WaitChanged("A-j1", "A", "running_cap", ("A-j2",)), "A A-j1 waits for its running cap, held by A-j2"),
    (WaitChanged("A-j1", "A", "gpu_time", ("A-j2",)), "A A-j1 waits for its GPU-time, held by A-j2"),
    (WaitChanged("A-j1", "A", "gpus", ("A-j2",)), "A A-j1 waits for GPUs, held by A-j2"),
    (JobEnded("A-j1", "A", "completed", "none", 1), "A A-j1 completed"),
    (JobEnded("A-j1", "A", "out_of_memory", "gpu_oom", 1), "A A-j1 out of memory (gpu_oom)"),
    (CopyKept("A-n1.c1", "A-n1", "A", digest("w"), Bytes(5), LORA), "A A-n1 is copied: lora, relative change 2.00e-02"),
    (CopyKept("A-n1.c1", "A-n1", "A", digest("w"), Bytes(5), FULL, again=True), "A A-n1 was kept already: full, relative change 4.00e-03"),
    (NominationAccepted("A-n1", "A", True, 8, 7), "A A-n1 is current; 7 of 8 probes ended by themselves"),
    (NominationAccepted("A-n1", "A", False, 8, 8), "A A-n1 is accepted, but a later one is current; 8 of 8 probes ended by themselves"),
    (NominationRejected("A-n1", "A", "unchanged", "it is the base itself"), "A A-n1 is rejected, unchanged: it is the base itself"),
    (ExamFailed("x1", "base", "not_served", "it ended"), "base could not be examined, not_served: it ended"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "said"), TOLD, ids=[type(event).__name__ for event, _ in TOLD])
def test_what_is_told(event: Event, said: str) -> None:
    assert say(event) == said


def test_the_houses_own_jobs_are_not_told() -> None:
    for event in (
        JobSubmitted("house-j1", HOUSE, spec()), WaitChanged("house-j1", HOUSE, "gpus", ()),
        AttemptStarted("house-j1.1", "house-j1", HOUSE, "n1", (), Bytes(1), Micros(1), GpuMicros(0)),
        JobEnded("house-j1", HOUSE, "completed", "none", 1),
    ):  # fmt: skip
        assert say(event) is None


def test_a_whole_run_is_told_in_readable_lines() -> None:
    run = Rehearsal(competition())
    run.ask(Pause("organiser:mara", None, ""))
    run.ask(Resume("organiser:mara", None))
    run.refuse(SubmitJob("A", None, spec(gpus=9)))
    run.exit(run.submit())
    run.accept(run.nominate())
    run.grant(Finish("B", None, "I can't do better."))
    play_out(run, {"base": 200, "A": 636})
    lines = [line for row in run.rows if (line := sentence(read_entry(row))) is not None]
    text = "\n".join(lines)
    for said in (
        "A Agent One (Lab One) takes its corner: $10.00, 40.00 GPU-h", "stage: running (the clock)", "A-j1 completed",
        "A nominates out/w1 as A-n1, 953.7 MiB", "B has finished: I can't do better.", "exam of base: 1,000 hidden questions",
        "A-n1 scores 63.6 %, 636 of 1,000", "stage: results (every exam is over)",
    ):  # fmt: skip
        assert said in text, said
    for line in lines:
        assert "None" not in line and "()" not in line and "  " not in line, line


def test_every_kind_is_either_told_or_book_keeping() -> None:
    """A new kind of event must be given its place here."""
    told = {type(event).__name__ for event, _ in TOLD} | {
        "EntrantSeated", "StageEntered", "ServerStarted", "NominationRequested", "ExamStarted", "ExamScored",
    }  # fmt: skip
    quiet = {
        "RunOpened", "ServerStopped", "EndAsked", "RefusalsCounted", "AlarmCleared", "ObservationIgnored", "ReportFrozen",
        "SessionStopAsked", "StopAsked", "AttemptEnded", "CheckpointSealed", "CopyStarted", "CopyFailed",
        "NominationWithdrawn", "CallReserved", "CallCharged", "CallReleased",
    }  # fmt: skip
    assert told | quiet == set(KINDS)


@given(st.text())
def test_text_made_visible_is_one_printable_line(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable() and "\n" not in shown
    if text.isprintable():
        assert shown == text


def test_hostile_texts_are_escaped() -> None:
    assert say(EntrantFinished("A", "\x1b]0;owned\x07\nT+0:00  ALARM run: fake\u202e")) == (
        "A has finished: \\x1b]0;owned\\x07\\nT+0:00  ALARM run: fake\\u202e"
    )
    assert visible("日本 é 🙂") == "日本 é 🙂"
    assert visible("\ud800 \u200b \xa0") == "\\ud800 \\u200b \\xa0"

"""The competitions that golden journals are recorded from. Once recorded, a journal is never made again from here."""

from __future__ import annotations

from collections.abc import Callable

from tests.building import FULL, GB, START, Rehearsal, competition, digest, spec
from tests.world import play_out, settle

from palestra.events.nominations import AnswerSettings
from palestra.referee.observations import (
    AttemptExited,
    CallAnswered,
    CallUnused,
    CopyBroke,
    DocumentFrozen,
    ServerDown,
    SessionExited,
    SessionLost,
    TailSetAside,
    Trouble,
    TroubleOver,
)
from palestra.referee.requests import (
    AddEntrant,
    CancelJob,
    EndRun,
    Finish,
    Nominate,
    Pause,
    RemoveEntrant,
    ReserveCall,
    RestartEntrant,
    Resume,
    RotateToken,
    SealCheckpoint,
    SubmitJob,
)
from palestra.rules.competition import EntrantRule
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, HOUR, MINUTE, SECOND, Bytes, Moment

ENTRANTS = (
    EntrantRule("Agent One", "Lab One", alias="Owl", model="small"),
    EntrantRule("Agent Two", "Lab Two", model="small"),
)


def complete() -> Rehearsal:
    """A small competition from before its start to its results: two corners, a LoRA against a full model, nothing odd."""
    rules = competition(running=2 * HOUR, entrants=ENTRANTS, gpu_time=8 * HOUR, memory_per_gpu=60 * GB)
    run = Rehearsal(rules, at=START - 10 * MINUTE)
    run.refuse(SubmitJob("A", "a0", spec()))
    run.until(START)
    for corner in "AB":
        call = run.reserve(corner, bound=3_000, cap=900)
        run.at = Moment(run.at + 4 * SECOND)
        run.tell(
            CallAnswered(
                call, Usage(fresh_input=500, cached_input=2_000, output=321), 200, "stop",
                asked_body=digest(f"asked {call}"), answered_body=digest(f"answered {call}"), first_step=1, steps=3,
            )
        )  # fmt: skip
    run.tell(CallUnused(run.reserve("B"), "the upstream said 503", 503))
    big = run.grant(SubmitJob("A", "a1", spec(gpus=6, memory=300 * GB, limit=HOUR, outputs=("out",)), "A-s1"))
    late = run.grant(SubmitJob("B", "b1", spec(gpus=4, memory=200 * GB, limit=20 * MINUTE), "B-s1"))
    run.at = Moment(run.at + 30 * MINUTE)
    run.exit(big, 0, ran=30 * MINUTE, peak_memory=Bytes(211 * GB))
    run.grant(SealCheckpoint("A", "a2", digest("w1"), "out/w1", Bytes(3 * GB), 2, 300))
    first = run.grant(
        Nominate(
            "A",
            "a3",
            digest("w1"),
            "out/w1",
            Bytes(3 * GB),
            AnswerSettings(),
            "first",
            "SFT on the pool",
            300,
        )
    )
    run.at = Moment(run.at + 2 * MINUTE)
    run.accept(first)
    run.at = Moment(run.at + 18 * MINUTE)
    run.exit(late, 143, ran=20 * MINUTE, over_time=True)
    run.grant(SealCheckpoint("B", "b2", digest("w2"), "out/w2", Bytes(60 * GB), 5))
    unchanged = run.nominate("B", "copy-of-base")
    run.tell(CopyBroke(f"{unchanged}.c1", "unchanged_copy", "all 290 tensors equal the base's"))
    second = run.grant(
        Nominate("B", "b3", digest("w2"), "out/w2", Bytes(60 * GB), AnswerSettings(temperature="0.3"))
    )
    run.at = Moment(run.at + 5 * MINUTE)
    run.accept(second, FULL)
    for _ in range(3):
        run.refuse(SubmitJob("B", None, spec(gpus=9)))
    for repeat in run.book.repeats():
        run.tell(repeat)
    run.submit("B", gpus=1, limit=10 * MINUTE)
    run.at = Moment(run.at + 6 * MINUTE)
    run.grant(Finish("B", "b4", "one good run"))
    settle(run)
    play_out(run, {"A": 612, "B": 608, "base": 271})
    run.tell(DocumentFrozen("scoreboard", digest("scoreboard"), len(run.rows)))
    return run


def troubled() -> Rehearsal:
    """Two pauses, a stopped server, a killed one with calls open, a larger copy that comes late, a model that can't be examined."""
    rules = competition(
        running=3 * HOUR, pause="extend", entrants=ENTRANTS, gpu_time=12 * HOUR, api_credit=DOLLAR // 2
    )
    run = Rehearsal(rules)
    job = run.submit("A", gpus=2, limit=2 * HOUR)
    run.at = Moment(START + 20 * MINUTE)
    run.grant(Pause("organiser:one", "p1", "the upstream is down"))
    run.refuse(ReserveCall("A", None, "small", 100, 100))
    waits = run.submit("B", gpus=1)
    run.at = Moment(START + 50 * MINUTE)
    run.grant(Resume("organiser:one", "p2"))
    run.tell(Trouble("disk:server", "91 % full"))
    full = run.nominate("A", "full", size=60 * GB)
    open_call, lost_call = run.reserve("A", bound=20_000, cap=5_000), run.reserve("B", bound=4_000, cap=1_000)
    run.tell(CallAnswered(lost_call, None, 200, "cut", hung_up=True))
    run.at = Moment(START + 60 * MINUTE)
    run.restart()  # killed: the call still open is charged at its ceiling
    run.tell(CallAnswered(open_call, Usage(output=5), 200, "stop"))  # too late
    run.tell(TailSetAside(512, "journal.db-wal.torn"))
    run.tell(SessionLost("A-s1"))
    run.exit(waits, 1, ran=2 * MINUTE, log_tail="torch.OutOfMemoryError: CUDA out of memory.")
    lora = run.nominate("A", "lora")
    run.at = Moment(START + 65 * MINUTE)
    run.accept(lora)
    run.tell(ServerDown(2, "stop"))
    run.exit(job, 143, ran=65 * MINUTE)
    for session in list(run.state.sessions):
        run.tell(SessionExited(session, 143, HOUR))
    run.tell(ServerDown(2, "gone"))
    run.at = Moment(START + 95 * MINUTE)
    run.restart()
    run.at = Moment(START + 120 * MINUTE)
    run.accept(full, FULL)  # requested first, ready last: not current
    run.tell(TroubleOver("disk:server"))
    run.accept(run.nominate("B", "w9"))
    run.tell(SessionExited("B-s2", 1, SECOND))
    run.grant(CancelJob("A", "c1", job))
    run.at = Moment(START + 130 * MINUTE)
    run.exit(job, 143, ran=35 * MINUTE)
    run.tell(AttemptExited(f"{job}.2", 143, None, None))  # told twice
    run.grant(EndRun("organiser:one", "e1", "the room closes early"))
    settle(run)
    play_out(run, {"A": 480, "B": None, "base": 271})
    return run


def joined() -> Rehearsal:
    """One entrant joins under an alias while the run goes on, one is taken out, one gets a new token and a new start."""
    run = Rehearsal(competition(running=3 * HOUR, entrants=ENTRANTS))
    run.at = Moment(START + HOUR)
    starts = Moment(START + HOUR + 5 * MINUTE)
    heron = AddEntrant("organiser:one", "j1", "Heron", "", "house", "small", starts, sealed_name="5ea1ed")
    assert run.grant(heron) == "C"
    run.grant(AddEntrant("organiser:one", "j2", "Ibis", "Lab Three", "house", "small", starts))
    run.grant(RemoveEntrant("organiser:one", "j3", "D", "it has no model yet"))
    run.until(starts)
    run.accept(run.nominate("B", "w1"))
    run.grant(RotateToken("organiser:one", "j4", "A"))
    run.tell(SessionExited("A-s1", 143, HOUR))
    run.wait(MINUTE)
    run.grant(RestartEntrant("organiser:one", "j5", "C", "it can't find its notes"))
    run.tell(SessionExited("C-s1", 143, MINUTE))
    run.wait(MINUTE)
    run.accept(run.nominate("C", "w2"), FULL)
    run.grant(RemoveEntrant("organiser:one", "j6", "B", "against the terms"))
    run.tell(SessionExited("B-s1", 143, HOUR))
    run.until(START + 3 * HOUR)
    settle(run)
    play_out(run, {"A": None, "C": 512, "base": 271})
    return run


RECORDINGS: dict[str, Callable[[], Rehearsal]] = {
    "complete": complete,
    "troubled": troubled,
    "joined": joined,
}

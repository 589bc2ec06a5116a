"""Four entrants in a four-minute arena, each with a story, played out under a clock of its own: what reports are tried on.

One is careful, one trains all parameters, one misreads limits and nominates the base model it meant to train, one joins
late under an alias. Rows out; nothing here is drawn by lot.
"""

from __future__ import annotations

from tests.building import FULL, GB, START, Rehearsal, competition, digest
from tests.world import play_out, settle

from palestra.events.codec import Row
from palestra.events.jobs import JobSpec
from palestra.events.nominations import AnswerSettings
from palestra.referee.observations import CallAnswered, CopyBroke, DocumentFrozen
from palestra.referee.requests import AddEntrant, Finish, Nominate, SubmitJob
from palestra.rules.competition import EntrantRule, Node
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, MINUTE, SECOND, Bytes, Micros, Moment

ENTRANTS = (
    EntrantRule("Careful", "Example Lab", model="small"),
    EntrantRule("Whole", "Example Lab", model="small"),
    EntrantRule("Stumbler", "Second Lab", model="small"),
)
HOSTILE = '</style><script>alert(1)</script><img src=x onerror="alert(2)">\x1b[31m\u202eevil'
"""What the stumbler writes into a note."""


class Pocket(Rehearsal):
    """The arena; `sec` moves the clock to so many seconds after the start."""

    def __init__(self) -> None:
        super().__init__(
            competition(
                running=4 * MINUTE, closing=2 * MINUTE, judging=10 * MINUTE, api_credit=DOLLAR // 2, gpu_time=10 * MINUTE,
                nodes=(Node("local", 2, Bytes(6 * GB)),), memory_per_gpu=2 * GB, gpus_per_job=2, gpus_running=2,
                longest=2 * MINUTE, entrants=ENTRANTS, serving_memory=GB // 4,
            )
        )  # fmt: skip

    def sec(self, seconds: float) -> None:
        """Let time go by up to an instant."""
        self.until(START + int(seconds * SECOND))

    def train(self, corner: str, name: str, *, gpus: int = 1, limit: int = 60) -> str:
        """Queue a job that is accepted."""
        return self.grant(SubmitJob(corner, None, job(name, gpus=gpus, limit=limit)))

    def think(self, corner: str, fresh: int, output: int, steps: int = 3) -> None:
        """One model call, answered at once."""
        call = self.reserve(corner, bound=fresh, cap=output)
        usage = Usage(fresh_input=fresh, output=output)
        asked, answered = digest(f"asked {call}"), digest(f"answered {call}")
        self.tell(
            CallAnswered(
                call, usage, 200, "stop", asked_body=asked, answered_body=answered, first_step=1, steps=steps
            )
        )

    def ended(self, name: str, code: int = 0, **facts: object) -> None:
        """A job ended; it ran since it was placed."""
        self.exit(
            name, code, ran=self.at - self.state.attempts[self.state.jobs[name].attempt].started, **facts
        )

    def put_up(self, corner: str, weights: str, label: str, step: int | None = None, note: str = "") -> str:
        """Nominate."""
        ask = Nominate(
            corner,
            None,
            digest(weights),
            f"out/{weights}",
            Bytes(3 * GB),
            AnswerSettings(),
            label,
            note,
            step,
        )
        return self.grant(ask)


def job(name: str, *, gpus: int = 1, memory: int = GB, limit: int = 60) -> JobSpec:
    """What is asked of the cluster; the limit in seconds."""
    return JobSpec(
        name=name, argv=("python", "train.py"), gpus=gpus, memory=Bytes(memory), limit=Micros(limit * SECOND)
    )


def pocket() -> list[Row]:
    """The whole season."""
    run = Pocket()
    _first_minute(run)
    _second_minute(run)
    _the_rest(run)
    play_out(run, {"base": 497, "A": 636, "B": 604, "C": 571, "D": 588})
    run.tell(DocumentFrozen("scoreboard", digest("scoreboard"), len(run.rows)))
    return run.rows


def _first_minute(run: Pocket) -> None:
    for corner, fresh in (("A", 3_000), ("B", 2_400), ("C", 6_000)):
        run.think(corner, fresh, 700)
    run.sec(3)
    base = run.train("A", "base-test", limit=40)
    run.sec(5)
    run.refuse(SubmitJob("C", None, job("train", limit=600)))
    run.sec(6)
    run.refuse(SubmitJob("C", None, job("train", memory=8 * GB)))
    run.think("C", 40_000, 900)
    run.sec(8)
    whole = run.train("B", "full-short", limit=100)
    run.sec(14)
    run.think("C", 42_000, 1_100)
    cut = run.train("C", "train", limit=20)
    run.sec(16)
    run.ended(base)
    run.sec(18)
    short = run.train("A", "sft-short")
    run.sec(36)
    run.ended(cut, 143, over_time=True)
    heron = AddEntrant(
        "organiser:one",
        "j1",
        "Heron",
        "",
        "house",
        "small",
        Moment(START + 75 * SECOND),
        sealed_name="5ea1ed",
    )
    run.grant(heron)
    run.sec(50)
    run.ended(short)
    first = run.put_up("A", "short", "first", 60, "clean rows only")
    run.sec(51)
    run.copied(first)
    run.sec(57)
    run.probed(first)
    run.think("A", 6_000, 800)
    run.sec(59)
    run.ended(whole)


def _second_minute(run: Pocket) -> None:
    long = run.train("A", "sft-long", limit=90)
    run.sec(62)
    full = run.put_up("B", "whole", "backup", 40)
    swallowed = run.train("C", "train again", limit=40)
    run.sec(70)
    run.ended(swallowed)
    unchanged = run.put_up("C", "same", "final", 200, HOSTILE)
    run.sec(72)
    run.tell(CopyBroke(f"{unchanged}.c1", "unchanged_copy", "all 290 tensors equal the base's"))
    run.sec(76)
    run.think("D", 3_000, 600)
    late = run.train("D", "quick", limit=60)
    run.think("C", 44_000, 1_000)
    run.sec(80)
    fixed = run.train("C", "train fixed", limit=90)
    run.sec(92)
    run.copied(full, FULL)
    run.sec(99)
    run.probed(full)
    run.sec(104)
    run.ended(late)
    run.sec(118)
    run.ended(long)
    better = run.put_up("A", "long", "final", 200)
    run.sec(119)
    run.copied(better)
    run.sec(126)
    run.probed(better)
    run.sec(130)
    quick = run.put_up("D", "quick", "")
    run.sec(132)
    run.copied(quick)
    run.sec(138)
    run.probed(quick)
    run.sec(150)
    run.ended(fixed)


def _the_rest(run: Pocket) -> None:
    run.grant(Finish("A", None, "the longer run stands"))
    run.sec(154)
    again = run.put_up("C", "fixed", "final", 120)
    broken = run.train("B", "full-long", gpus=2, limit=60)
    run.sec(156)
    run.copied(again)
    run.sec(163)
    run.probed(again)
    run.sec(171)
    run.ended(broken, 1, log_tail="torch.OutOfMemoryError: CUDA out of memory.")
    run.think("B", 9_000, 900)
    run.sec(200)
    run.put_up("B", "whole2", "final", 90)
    run.sec(214)
    settle(run, kept=FULL)

"""A scripted run on disk for the pages' tests: four corners with different stories, and text that is out to do harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from tests.building import FULL, LORA, RUN, START, Rehearsal, competition, digest
from tests.world import play_out, settle

from palestra.events.jobs import JobSpec
from palestra.events.nominations import AnswerSettings
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.ports import StepRow
from palestra.referee.observations import CallAnswered, CopyBroke, ServerDown, SessionExited
from palestra.referee.requests import Finish, Nominate, ReserveCall, SealCheckpoint, SubmitJob
from palestra.rules.competition import Competition, EntrantRule, Node
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, GIB, MINUTE, SECOND, Bytes, Digest, Micros
from palestra.runtime.folder import RunFile, RunFolder
from palestra.runtime.opening import NAMED, SEED
from palestra.runtime.seats import TOKENS

When = Literal["announced", "started", "running", "results"]

TOKEN = "n0tF0rY0urEyes_5a9c1be47d20f3"
API_KEY = "sk-live-4f8a9b2c7d1e6f3a5b8c9d0e"
SEALED = ("Grand Secret Nine", "Hidden Harbour Lab")
"""The true name and lab behind the alias Owl: they stand in what agents wrote, and nowhere on a page."""
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    " [click](javascript:document.title='owned') \"quoted\" 'single' `tick` {{ 7*7 }} {% raw %}\n"
    "\x1b[31mred\x1b[0m \x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x07 "
    "\u202etxt.exe\u202c zero\u200bwidth tag\U000e0041 <|im_end|> </s> del\x7f c1\x9b end"
)
ENTRANTS = (
    EntrantRule("Careful", "Example Lab", model="small"),
    EntrantRule("Full Tilt", "Example Lab", model="small"),
    EntrantRule('Hasty <b>"&amp;\u202e', "O'Neil & <i>Sons</i>", model="small"),
    EntrantRule(SEALED[0], SEALED[1], alias="Owl", model="small"),
)
WRITTEN = Path(__file__).parents[2] / "rules" / "whole.toml"


def rules() -> Competition:
    """Five minutes on two nodes of slots."""
    made = competition(
        running=5 * MINUTE,
        closing=MINUTE,
        judging=10 * MINUTE,
        api_credit=DOLLAR // 2,
        gpu_time=12 * MINUTE,
        nodes=(Node("oak", 4, Bytes(8 * GIB), "slot"), Node("elm", 4, Bytes(8 * GIB), "slot")),
        memory_per_gpu=6 * GIB,
        gpus_per_job=4,
        gpus_running=4,
        longest=3 * MINUTE,
        entrants=ENTRANTS,
        serving_memory=GIB,
    )
    return msgspec.structs.replace(made, title="A rehearsal with slots")


class Scene:
    """One run, told up to some point. `write` lays it out as a server would have left it."""

    def __init__(self, when: When = "running") -> None:
        self.run = Rehearsal(rules(), at=START - 10 * MINUTE if when == "announced" else None)
        self.steps: list[StepRow] = []
        self.bodies: list[bytes] = []
        self.logs: dict[str, tuple[bytes, bytes]] = {}
        self.peaks: dict[str, int] = {}
        if when in ("running", "results"):
            self._early()
            self._middle()
        if when == "results":
            self._end()

    # What happens

    def _early(self) -> None:
        run = self.run
        self.say("A", "What is there, and what is wrong with it?", "head -n 3 data/pool.jsonl; arena status")
        self.hear("A", '{"prompt": "last: oak"}\n{"prompt": "wrap: elm"}\n[exit 0, 0.4 s]')
        self.later(12)
        clean = self.submit(
            "A", "clean", 1, 1, 60, argv=("python", "-m", "kit.clean", "--pool", "data/pool.jsonl")
        )
        self.later(9)
        self.ends(clean, log="dropped 41 rows that repeat the public test set\n", peak=420 << 20)
        self.say(
            "B", "Full parameters, at once: the budget is there to be used.", "arena submit --gpus 4 ..."
        )
        first = self.submit("B", "all-parameters", 4, 6, 120)
        self.logs[f"{first}.1"] = (b"PALESTRA progress step=40 of=200\nloss 1.92\n", b"")
        short = self.submit("A", "sft-short", 1, 2, 60, outputs=("sft-short",))
        self.later(6)
        run.refuse(SubmitJob("C", "c1", self.spec("everything", 9, 5, 60)))
        run.tell(ServerDown(1, "stop"))
        for job in (first, short):
            run.exit(job, 143, ran=6 * SECOND)
        for session in list(run.state.sessions):
            run.tell(SessionExited(session, 143, MINUTE))
        run.tell(ServerDown(1, "gone"))
        self.later(4)
        run.restart()
        self.later(20)
        self.ends(
            short,
            log="\n".join(f"step {n} loss {2.4 - n / 90:.3f}" for n in range(0, 120, 5)),
            peak=900 << 20,
        )
        self.nominate("A", "w1", "SFT on clean rows", LORA, step=100)
        self.later(5)
        self.ends(
            first, 1, log="loss nan\n", err="torch.OutOfMemoryError: CUDA out of memory.\n", peak=6 * GIB
        )

    def _middle(self) -> None:
        run = self.run
        again = self.submit("B", "half-the-batch", 4, 6, 150)
        self.peaks[f"{again}.1"] = 5 * GIB
        self.logs[f"{again}.1"] = (b"PALESTRA progress step=90 of=200\nloss 1.41\n", b"warming up\n")
        leak = self.submit("C", 'loud "<i>job</i>"', 1, 2, 30)
        out = f"{HOSTILE}\ntoken {TOKEN}\nkey {API_KEY}\nI am {SEALED[0]}\n" + "x" * 1_000_000
        self.logs[f"{leak}.1"] = (out.encode(), HOSTILE.encode())
        self.say(
            "C",
            HOSTILE + f" {TOKEN} {SEALED[0]} of {SEALED[1].upper()}",
            HOSTILE,
            reasoning="I could print my token.",
        )
        self.hear("C", HOSTILE + f"\nPALESTRA_TOKEN={TOKEN}\nOPENAI_API_KEY={API_KEY}\n[exit 1, 12.0 s]")
        self.later(30)
        self.ends(leak, 143, over_time=True, log_tail=HOSTILE)
        run.refuse(ReserveCall("C", None, "small", 10_000_000, 1))
        copied = run.nominate("C", "copy-of-base", size=GIB)
        run.tell(CopyBroke(f"{copied}.c1", "unchanged_copy", "all 290 tensors equal the base's"))
        self.nominate("D", "owl-1", "The owl's first", FULL)
        self.say("D", f"I am {SEALED[0]} by {SEALED[1]}, but nobody may know.", "echo quiet", cut="length")
        run.grant(Finish("D", "d9", "one good run"))
        self.later(10)
        self.submit("A", "sft-long", 2, 6, 90)
        self.submit("C", "needs-room", 1, 5, 60)
        self.submit("B", "one-more", 1, 1, 60)
        self.peaks["A-j3.1"] = 2 * GIB
        self.logs["A-j3.1"] = (b"PALESTRA progress step=10 of=400\nloss 1.88\n", b"")
        self.later(14)
        self.say("A", "While that runs I write down what I have learned so far.", "cat notes.md")
        self.nominate(
            "A",
            "w1",
            "The same, with a stop",
            LORA,
            again=True,
            settings=AnswerSettings(
                temperature="0.3", stop=("<|im_end|>",), system_prompt="Answer in one word."
            ),
        )
        self.later(6)

    def _end(self) -> None:
        run = self.run
        run.until(run.state.clock.start + 5 * MINUTE + 24 * SECOND)
        settle(run)
        play_out(run, {"A": 742, "B": None, "C": None, "D": 731, "base": 497})

    # Words for it

    def later(self, seconds: int) -> None:
        self.run.wait(seconds * SECOND)

    def spec(
        self,
        name: str,
        gpus: int,
        gib: int,
        seconds: int,
        *,
        argv: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> JobSpec:
        return JobSpec(
            name=name, argv=tuple(argv) or ("python", "-m", "kit.sft", "--out", name), gpus=gpus, memory=Bytes(gib * GIB),
            limit=Micros(seconds * SECOND), outputs=tuple(outputs),
        )  # fmt: skip

    def submit(
        self,
        corner: str,
        name: str,
        gpus: int,
        gib: int,
        seconds: int,
        *,
        argv: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> str:
        return self.run.grant(
            SubmitJob(corner, None, self.spec(name, gpus, gib, seconds, argv=argv, outputs=outputs))
        )

    def ends(
        self,
        job: str,
        code: int = 0,
        *,
        log: str = "",
        err: str = "",
        peak: int | None = None,
        **facts: object,
    ) -> None:
        attempt = self.run.state.jobs[job].attempt
        started = self.run.state.attempts[attempt].started
        if log or err:
            self.logs[attempt] = (log.encode(), err.encode())
        more = {"peak_memory": Bytes(peak)} if peak else {}
        self.run.exit(
            job, code, ran=self.run.at - started, log_tail=str(facts.pop("log_tail", err)), **more, **facts
        )

    def nominate(
        self,
        corner: str,
        weights: str,
        label: str,
        found: object,
        *,
        again: bool = False,
        step: int | None = None,
        settings: AnswerSettings | None = None,
    ) -> None:
        run = self.run
        if not again:
            run.grant(SealCheckpoint(corner, None, digest(weights), f"out/{weights}", Bytes(GIB), 2, step))
        one = run.grant(
            Nominate(
                corner,
                None,
                digest(weights),
                f"out/{weights}",
                Bytes(GIB),
                settings or AnswerSettings(),
                label,
                "on the pool",
                step,
            )
        )
        self.later(2)
        if run.state.nominations[one].state == "copying":
            run.copied(one, found, again=again)  # type: ignore[arg-type]
        self.later(3)
        run.probed(one)

    def say(self, corner: str, text: str, command: str, *, reasoning: str = "", cut: str = "") -> None:
        """One model call and its reply."""
        call = self.run.reserve(corner, bound=4_000, cap=800)
        body: dict[str, object] = {"role": "assistant", "content": text}
        if reasoning:
            body["reasoning"] = reasoning
        arguments = json.dumps({"command": command})
        body["tool_calls"] = [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "shell", "arguments": arguments[:-9] if cut else arguments},
            }
        ]
        body["finish_reason"] = cut or "tool_calls"
        first = self._keep(corner, call, "assistant", json.dumps(body).encode())
        usage = Usage(fresh_input=900, cached_input=2_000, output=260)
        self.run.tell(CallAnswered(call, usage, 200, cut or "tool_calls", first_step=first, steps=1))

    def hear(self, corner: str, text: str) -> None:
        """The tool's result, which the next call carries."""
        call = self.run.reserve(corner, bound=4_000, cap=800)
        body = json.dumps({"role": "tool", "tool_call_id": "c1", "content": text}).encode()
        first = self._keep(corner, call, "tool", body)
        self.run.tell(
            CallAnswered(call, Usage(fresh_input=400, output=90), 200, "stop", first_step=first, steps=1)
        )

    def _keep(self, corner: str, call: str, role: str, body: bytes) -> int:
        n = sum(row.corner == corner for row in self.steps) + 1
        self.bodies.append(body)
        self.steps.append(StepRow(corner, n, call, role, Digest("sha256:" + _sha(body)), self.run.at))
        return n

    # On disk

    def write(self, path: Path) -> RunFolder:
        """The run folder with journal, record, secrets and logs."""
        folder = RunFolder(path)
        folder.make()
        journal = SqliteJournal(folder.path, RUN)
        journal.append(self.run.rows)
        record = SqliteRecord(folder.path)
        record.keep(self.bodies, self.steps)
        record.close()
        journal.close()
        folder.write_secret(TOKENS, msgspec.json.encode({"A": "t" * 30 + "1", "C": TOKEN}))
        folder.write_secret(SEED, b"5eed5eed5eed5eed")
        true = f'name = "{SEALED[0]}"\nlab = "{SEALED[1]}"'
        text = WRITTEN.read_text().replace('name = "Own"', true).replace("Grey Heron", "Owl")
        folder.write_secret(NAMED, text.replace("Europe/Berlin", "UTC").encode())
        for attempt, (out, err) in self.logs.items():
            spool = folder.spool / "attempts" / attempt
            spool.mkdir(parents=True)
            (spool / "out").write_bytes(out)
            (spool / "err").write_bytes(err)
        for attempt, peak in self.peaks.items():
            (folder.spool / "attempts" / attempt).mkdir(parents=True, exist_ok=True)
            (folder.spool / "attempts" / attempt / "peak").write_text(f"{peak}\n")
        folder.write(RunFile(RUN, str(path / "competition.toml"), "/models/base", "0"))
        return folder


def _sha(body: bytes) -> str:
    return digest(body.decode()).removeprefix("sha256:")

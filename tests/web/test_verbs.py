"""The entrant's verbs over a real socket, asked raw and with the real `arena` command."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.building import competition
from tests.web.arena import Arena, serving

from palestra.cluster.fake import Behaviour
from palestra.events.corners import EntrantFinished
from palestra.events.jobs import JobSubmitted
from palestra.events.nominations import CheckpointSealed, NominationRequested
from palestra.ports import AttemptSpec
from palestra.referee.requests import Pause
from palestra.rules.units import HOUR, MINUTE, Micros

OUTPUT = bytes(range(256)) * 700 + b"last line without an end"


def test_status_tells_time_accounts_jobs_and_nomination(arena: Arena) -> None:
    """S53, F53: one stored end; the instant in UTC, in the display zone and as T+."""
    arena.submit(time="90m")
    arena.settle(MINUTE)
    told = arena.ask("GET", "/arena/status").json
    assert (told["t"], told["stage"], told["left"]) == ("T+0:01", "running", "5 h 59 min")
    assert told["stage_ends_shown"] == "2026-12-01 21:00:00 UTC (T+6:00)"
    gpu = told["gpu"]
    assert gpu["limit"] == gpu["spent"] + gpu["held"] + gpu["left"] == 40 * HOUR
    assert gpu["shown"]["held"] == "1.50 GPU-h"
    assert told["jobs"] == {"queued": 0, "running": 1}
    assert told["nomination"] is None
    shown = arena.run("status")
    assert shown.code == 0
    assert "1.50 GPU-h held" in shown.text and "a GPU here is a slot, shared CPU time" in shown.text
    assert arena.run("status", "--json").json["corner"] == "A"


def test_the_end_is_shown_in_the_display_zone_too() -> None:
    """F53: zone and offset can't be mistaken."""
    import msgspec

    with serving(msgspec.structs.replace(competition(), zone="America/Los_Angeles")) as arena:
        told = arena.ask("GET", "/arena/status").json["stage_ends_shown"]
    assert told == "2026-12-01 21:00:00 UTC (2026-12-01 13:00:00 PST, T+6:00)"


def test_while_paused_no_end_is_promised(arena: Arena) -> None:
    """F55: a pause that extends moves the end."""
    arena.rule(Pause("organiser:x", None, "a broken cable"))
    told = arena.ask("GET", "/arena/status").json
    assert told["paused"] and told["left"] is None and told["stage_ends"] is None
    assert told["binding"] == "paused: the end moves on"
    assert "PAUSED" in arena.run("status").text
    assert "paused, the end moves on" in arena.run("rules").text


def test_rules_are_the_rules_of_this_run(arena: Arena) -> None:
    text = arena.run("rules").text
    assert arena.ask("GET", "/arena/rules").headers["content-type"].startswith("text/markdown")
    for said in (
        "# Rehearsal", "Ends: 2026-12-01 21:00:00 UTC (T+6:00)", "$10.00 of API credit, 40.00 GPU-h of GPU-time",
        "n1: 8 GPUs (slot)", "a `slot` stands for one", "1,000 hidden questions", "Be fair – and quick.",
    ):  # fmt: skip
        assert said in text


def test_submit_repeats_what_it_understood(arena: Arena) -> None:
    """S50, F18: a limit is echoed in words, with the instant at which it would end the job."""
    arena.settle(30 * MINUTE)
    answer = arena.submit("python", "train.py", time="PT1H30M", memory="64GB", gpus=2, name="sft")
    assert answer.status == 201
    assert answer.json == {
        "job": "A-j1",
        "understood": {
            "time": "1 h 30 min, would end T+2:00 if it started now",
            "memory": "59.6 GiB",
            "gpus": 2,
        },
        "state": "running",
        "wait": None,
    }
    shown = arena.run("submit", "--time", "2m", "--", "true")
    assert "2 min, would end T+0:32 if it started now" in shown.text


def test_a_job_from_queue_to_end(arena: Arena) -> None:
    arena.submit(name="first")
    arena.settle()
    assert arena.ask("GET", "/arena/jobs/A-j1").json["state"] == "running"
    assert arena.ask("POST", "/arena/jobs/A-j1/cancel", {}).json == {"job": "A-j1", "state": "stopping"}
    arena.settle(MINUTE)
    job = arena.ask("GET", "/arena/jobs/A-j1").json
    assert (job["state"], job["end"], job["cause"]) == ("ended", "cancelled", "cancelled")
    assert job["gpu_time_charged"] == "0.0 GPU-s"
    assert arena.run("jobs", "A-j1").text.startswith("A-j1 first: cancelled\n")
    assert arena.run("jobs", "--wait").code == 1


def test_jobs_of_a_corner_are_its_own(arena: Arena) -> None:
    arena.submit()
    arena.submit(corner="B")
    assert [job["id"] for job in arena.ask("GET", "/arena/jobs").json["jobs"]] == ["A-j1"]
    assert [job["id"] for job in arena.ask("GET", "/arena/jobs", corner="B").json["jobs"]] == ["B-j1"]


def test_a_script_runs_as_it_was_when_it_was_submitted() -> None:
    """F24: edited after submission, the submitted version runs; it is frozen by its digest."""
    with serving(competition(gpus_running=1)) as arena:
        script = arena.home() / "train.sh"
        arena.run("submit", "--time", "1h", "--", "sleep", "60")
        script.write_text("#!/bin/bash -e\necho first\n")
        assert arena.run("submit", "--time", "1h", "train.sh", "--", "--lr", "1").code == 0
        script.write_text("#!/bin/bash -e\necho second\n")
        arena.settle()
        submitted = [event for event in arena.events if isinstance(event, JobSubmitted)][-1].spec
        assert submitted.script == "sha256:" + hashlib.sha256(b"#!/bin/bash -e\necho first\n").hexdigest()
        assert arena.run("cancel", "A-j1").code == 0
        arena.settle(MINUTE)
        ran = next(spec for spec in arena.started if spec.attempt == "A-j2.1")
        assert ran.argv[:2] == ("/bin/bash", "-e") and ran.argv[3:] == ("--lr", "1")
        assert Path(ran.argv[2]).read_text() == "#!/bin/bash -e\necho first\n"


def test_a_progress_line_is_shown() -> None:
    """Progress is a line of output: jobs have no access to the arena."""
    out = b"loading\nPALESTRA progress step=10 of=300\nPALESTRA progress step=20 of=300\nmore\n"
    with serving(behave=lambda spec: Behaviour(runs=None, out=out)) as arena:
        arena.submit()
        arena.settle()
        assert arena.ask("GET", "/arena/jobs/A-j1").json["progress"] == {"step": 20, "of": 300}
        assert "step 20 of 300" in arena.run("jobs").text


def test_logs_are_byte_exact_with_offsets() -> None:
    def behave(spec: AttemptSpec) -> Behaviour:
        return Behaviour(runs=Micros(MINUTE), exit_code=3, out=OUTPUT, err=b"first\nsecond\nthird\n")

    with serving(behave=behave) as arena:
        arena.submit()
        arena.settle(2 * MINUTE)
        assert arena.run("jobs", "A-j1").text.startswith("A-j1 train: failed\n")
        whole, offset = b"", 0
        while piece := arena.ask("GET", f"/arena/jobs/A-j1/log?offset={offset}&limit=50000"):
            if not piece.body:
                break
            whole += piece.body
            offset = int(piece.headers["palestra-next-offset"])
        assert whole == OUTPUT and offset == len(OUTPUT)
        assert arena.ask("GET", "/arena/jobs/A-j1/log?offset=-24").body == b"last line without an end"
        assert arena.ask("GET", "/arena/jobs/A-j1/log?stream=err&offset=6&limit=6").body == b"second"
        assert arena.run("logs", "A-j1").out == OUTPUT
        assert arena.run("logs", "A-j1", "--err", "--tail", "2").out == b"second\nthird\n"
        assert arena.run("logs", "A-j1", "--follow").out == OUTPUT


@pytest.mark.parametrize("offset", [-(10**30), -1, 10**18, 10**30])
def test_any_offset_has_an_answer(offset: int) -> None:
    with serving(behave=lambda spec: Behaviour(runs=None, out=b"abc")) as arena:
        arena.submit()
        arena.settle()
        answer = arena.ask("GET", f"/arena/jobs/A-j1/log?offset={offset}")
        assert (answer.status, answer.body) == (200, {-(10**30): b"abc", -1: b"c"}.get(offset, b""))


def test_a_checkpoint_is_sealed_while_its_job_runs(arena: Arena) -> None:
    """S37: nominable is a sealed checkpoint, whatever the job's state."""
    arena.submit()
    arena.settle()
    arena.checkpoint("step-1500")
    sealed = arena.run("seal", "step-1500", "--step", "1500", "--json")
    assert sealed.code == 0 and sealed.json["checkpoint"] == "A-k1" and sealed.json["files"] == 2
    assert arena.ask("GET", "/arena/jobs/A-j1").json["state"] == "running"
    event = [event for event in arena.events if isinstance(event, CheckpointSealed)][-1]
    assert (event.path, event.step, event.artifact) == ("step-1500", 1500, sealed.json["artifact"])


def test_a_nomination_from_request_to_current(arena: Arena) -> None:
    """S03: the old one stands until the new one is copied and checked."""
    arena.checkpoint("one")
    asked = arena.run("nominate", "one", "--label", "mine", "--temperature", "0.2", "--stop", "END")
    assert asked.code == 0 and "nomination A-n1" in asked.text
    assert arena.ask("GET", "/arena/nominations/A-n1").json["state"] == "copying"
    assert arena.ask("GET", "/arena/status").json["nomination"] is None
    for _ in range(4):
        arena.settle(MINUTE)
    one = arena.ask("GET", "/arena/nominations/A-n1").json
    assert (one["state"], one["current"], one["kind"], one["label"]) == ("accepted", True, "lora", "mine")
    assert one["requested_t"] == "T+0:00" and one["decided_t"] > one["copied_t"]
    settings = [event for event in arena.events if isinstance(event, NominationRequested)][-1].settings
    assert (settings.temperature, settings.stop, settings.top_p) == ("0.2", ("END",), "1")
    arena.checkpoint("two", data=b"better")
    arena.run("nominate", "two")
    assert arena.ask("GET", "/arena/status").json["nomination"]["id"] == "A-n1"
    for _ in range(4):
        arena.settle(MINUTE)
    listed = arena.ask("GET", "/arena/nominations").json["nominations"]
    assert [(one["id"], one["current"]) for one in listed] == [("A-n1", False), ("A-n2", True)]
    assert "A-n2 (lora), since T+0:04" in arena.run("status").text


def test_finish_asks_once_and_says_what_is_left(arena: Arena) -> None:
    """S45: what is given up and what would be judged, before it is final."""
    arena.checkpoint("one")
    arena.run("nominate", "one")
    first = arena.run("finish")
    assert first.code == 1
    assert "finishing is final: 6 h, $10.00 and 40.00 GPU-h are left unused" in first.words
    assert "NO current nomination (A-n1 still copied and checked after that)" in first.words
    assert not any(isinstance(event, EntrantFinished) for event in arena.events)
    done = arena.run("finish", "--yes", "--note", "enough")
    assert done.code == 0 and done.text.startswith("finished at T+0:00.")
    for _ in range(4):
        arena.settle(MINUTE)
    assert arena.ask("GET", "/arena/nominations/A-n1").json["current"]
    assert arena.submit().error["code"] == "finished"
    assert "you have finished" in arena.run("status").words
    assert arena.ask("GET", "/arena/status", corner="B").json["finished_t"] is None

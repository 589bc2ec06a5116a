"""Each verb against a small arena: what it asks, what it prints, how it exits."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palestra.client.arena import VERBS, build_parser, help_text, main
from palestra.rules.manifest import artifact_digest, read_manifest

if TYPE_CHECKING:
    from tests.client.conftest import Arena

Capture = pytest.CaptureFixture[str]


def checkpoint(name: str, **files: str) -> Path:
    folder = Path(name)
    folder.mkdir()
    for file, text in ({"adapter_config.json": "{}", "adapter_model.safetensors": "weights"} | files).items():
        (folder / file).write_text(text)
    return folder


def test_status_fits_80_columns_and_says_that_gpus_are_slots(arena: Arena, capsys: Capture) -> None:
    arena.status["nomination"] = {"id": "A-n3", "since_t": "T+0:01:00", "kind": "lora", "label": "first try"}
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "T+0:01:23" in out
    assert "$0.37 left of $0.50 ($0.12 spent, $0.01 held)" in out
    assert "a GPU here is a slot" in " ".join(out.split())
    assert "ends 2026-12-01 17:02:30 UTC" in out
    assert "A-n3 (lora, 'first try'), since T+0:01:00" in out
    assert "the pool has a new file" in out


def test_status_and_rules_as_json(arena: Arena, capsys: Capture) -> None:
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == arena.status
    assert main(["rules"]) == 0
    assert capsys.readouterr().out == "# Rules\n\nBe fair – and quick.\n"
    assert main(["rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"].startswith("# Rules")


def test_submit_echoes_what_was_understood_and_names_the_job_on_its_own_line(
    arena: Arena, capsys: Capture
) -> None:
    """F18: the limit is echoed."""
    argv = [
        "submit",
        "--name",
        "sft",
        "--time",
        "90m",
        "--memory",
        "2GiB",
        "--out",
        "ckpt",
        "--",
        "train",
        "--time",
        "x",
    ]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "job A-j1"
    assert [line.split() for line in lines[-2:]] == [["memory", "2", "GiB"], ["gpus", "1"]]
    assert any("1 h 30 min, would end T+12:04" in line for line in lines)
    sent = arena.asked[-1].body
    assert sent["argv"] == ["train", "--time", "x"]
    assert (sent["time"], sent["memory"], sent["gpus"]) == ("90m", "2GiB", 1)
    assert (sent["cwd"], sent["outputs"], sent["script"]) == (".", ["ckpt"], None)


def test_a_script_is_sent_as_text_with_its_interpreter(arena: Arena, capsys: Capture) -> None:
    """F24: what runs is what was there at submission."""
    Path("work").mkdir()
    Path("work/train.py").write_text("#!/usr/bin/env python3\nprint('ä')\n")
    Path("plain.sh").write_text("echo hello\n")
    os.chdir("work")
    assert main(["submit", "train.py", "--time", "5m", "--gpus", "2", "--", "--lr", "3"]) == 0
    sent = arena.asked[-1].body
    assert sent["argv"] == ["/usr/bin/env", "python3", "{script}", "--lr", "3"]
    assert sent["script"] == "#!/usr/bin/env python3\nprint('ä')\n"
    assert sent["cwd"] == "work"
    assert "GPUs: needs 2, local has 1 free" in capsys.readouterr().out
    assert main(["submit", "../plain.sh", "--time", "5m"]) == 0
    assert arena.asked[-1].body["argv"] == ["/bin/sh", "{script}"]


def test_a_time_without_a_unit_is_the_arenas_to_refuse(arena: Arena, capsys: Capture) -> None:
    """F18, S50."""
    assert main(["submit", "--time", "2:00", "--", "true"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    flat = " ".join(said.err.split())
    assert "refused (bad_input)" in flat
    assert "'2:00' can't be read; write a number with its unit" in flat
    assert main(["submit", "--json", "--time", "2:00", "--", "true"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["field"] == "time"
    assert arena.jobs == {}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["submit", "--time", "5m"], "nothing to run"),
        (["submit", "--", "true"], "--time"),
        (["submit", "--time", "5m", "nowhere.sh"], "nowhere.sh"),
        (["submit", "--time", "5m", "--gpus", "two", "--", "true"], "two"),
        (["jobs", "A-j1", "--wait", "30"], "90s"),
        (["logs", "A-j1", "--tail", "-1"], "--tail"),
        (["logs", "A-j1", "--follow", "--json"], "--follow"),
        (["seal", "nowhere"], "nowhere"),
        (["seal", "/usr"], "outside your home"),
        (["nominate", "nowhere"], "nowhere"),
        (["nominate", "--wait"], "--wait"),
        (["stat"], "status"),
        (["status", "--jso"], "--help"),
    ],
)
def test_bad_usage_is_told_before_anything_is_sent(
    arena: Arena, capsys: Capture, words: list[str], hint: str
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert hint in said.err
    assert "Traceback" not in said.err
    assert [ask for ask in arena.asked if ask.method == "POST"] == []


def test_jobs_as_a_table_within_80_columns(arena: Arena, capsys: Capture) -> None:
    """S72: the reason for a wait is shown, not "queue"."""
    assert main(["jobs"]) == 0
    assert capsys.readouterr().out == "no jobs yet\n"
    sentence = "memory: needs 4 GiB, best node has 1 GiB; A-j1 and A-j2 hold 5 GiB"
    arena.jobs = {
        "A-j1": arena.job("A-j1", state="ended", end="completed", cause="none", ended_t="T+0:01:10"),
        "A-j2": arena.job("A-j2", state="ended", end="failed", cause="user_error", ended_t="T+0:01:11"),
        "A-j3": arena.job("A-j3", state="running", started_t="T+0:01:12", progress={"step": 20, "of": 100}),
        "A-j4": arena.job(
            "A-j4", name="a name that goes on", submitted_t="T+0:01:13", wait={"sentence": sentence}
        ),
    }
    assert main(["jobs"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"A-j1 +completed +T\+0:01:10", out)
    assert re.search(r"A-j2 +failed .*user_error", out)
    assert re.search(r"A-j3 +running .*step 20 of 100", out)
    assert re.search(r"A-j4 +queued .*memory: needs .*…", out)
    assert main(["jobs", "A-j4"]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_waiting_for_a_job_ends_with_its_end(arena: Arena, capsys: Capture) -> None:
    polls = iter([{}, {"state": "ended", "end": "completed", "exit_code": 0, "gpu_time_charged": 30_000_000}])
    arena.jobs = {"A-j1": arena.job("A-j1", state="running", name="sft")}
    arena.polled = lambda found: found.update(next(polls))
    assert main(["jobs", "--wait", "A-j1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A-j1 sft: completed\n")
    assert "30.0 GPU-s" in out
    assert next(polls, None) is None
    arena.jobs["A-j2"] = arena.job(
        "A-j2", state="ended", end="out_of_memory", cause="host_oom", evidence="peak 3.1 GiB"
    )
    assert main(["jobs", "A-j2", "--wait"]) == 1
    assert "peak 3.1 GiB" in capsys.readouterr().out
    arena.jobs["A-j3"] = arena.job("A-j3", state="running", name="sft")
    assert main(["jobs", "A-j3", "--wait", "0s"]) == 1
    assert "A-j3 sft: running" in capsys.readouterr().out


def test_unknown_job(arena: Arena, capsys: Capture) -> None:
    for words in (["jobs", "A-j9"], ["logs", "A-j9"], ["cancel", "A-j9"]):
        assert main(words) == 1
        assert "refused (unknown_job): there is no job A-j9" in capsys.readouterr().err


def test_cancel(arena: Arena, capsys: Capture) -> None:
    arena.jobs = {"A-j1": arena.job("A-j1", state="running")}
    assert main(["cancel", "A-j1", "--request", "my-own-key"]) == 0
    assert capsys.readouterr().out == "A-j1: stopping\n"
    assert arena.asked[-1].key == "my-own-key"


def test_logs_are_byte_exact(arena: Arena, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = b"loss 1.0\r\n\xff\xfe\x00 \x1b[31mred\n" * 9000 + b"no line end"
    arena.jobs = {"A-j1": arena.job("A-j1", state="ended")}
    arena.logs = {"A-j1 out": data, "A-j1 err": b"only here\n"}
    for words, wanted in (
        (["logs", "A-j1"], data),
        (["logs", "A-j1", "--err"], b"only here\n"),
        (["logs", "A-j1", "--err", "--tail", "9"], b"only here\n"),
        (["logs", "A-j1", "--tail", "0"], b""),
        (["logs", "A-j1", "--tail", "2"], b"\xff\xfe\x00 \x1b[31mred\nno line end"),
        (["logs", "A-j1", "--tail", "15000"], b"".join(data.splitlines(keepends=True)[-15000:])),
        (["logs", "A-j1", "--follow"], data),
    ):
        if words[-1] == "15000":  # bytes.splitlines ends lines at more than line feeds
            pieces = data.split(b"\n")
            wanted = b"\n".join(pieces[-15000:])
        assert main(words) == 0
        assert capfdbinary.readouterr().out == wanted, words


def test_logs_as_json_say_what_is_text(arena: Arena, capsys: Capture) -> None:
    arena.jobs = {"A-j1": arena.job("A-j1", state="ended")}
    arena.logs = {"A-j1 out": "eins\nzwei ä\n".encode(), "A-j1 err": b"\xff"}
    assert main(["logs", "A-j1", "--json", "--tail", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"job": "A-j1", "stream": "out", "text": "zwei ä\n"}
    assert main(["logs", "A-j1", "--json", "--err"]) == 0
    assert json.loads(capsys.readouterr().out)["base64"] == "/w=="


def test_following_a_log_ends_with_the_job(arena: Arena, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    steps = [None, b"one\n", b"", b"two\n", b"three\n"]

    def polled(found: dict[str, Any]) -> None:
        step = steps.pop(0)
        if step is not None:  # until then it hasn't started
            arena.logs["A-j1 out"] = arena.logs.get("A-j1 out", b"") + step
        found["state"] = "running" if steps else "ended"

    arena.jobs, arena.polled = {"A-j1": arena.job("A-j1")}, polled
    assert main(["logs", "A-j1"]) == 1
    assert main(["logs", "A-j1", "--follow", "--tail", "0"]) == 0
    assert capfdbinary.readouterr().out == b"one\ntwo\nthree\n"
    assert main(["logs", "A-j1", "--follow", "--tail", "2"]) == 0
    assert capfdbinary.readouterr().out == b"two\nthree\n"


def test_the_tail_of_a_log_with_very_long_lines(
    arena: Arena, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = [b"a" * 700_000 + b"\n", b"b" * 700_000 + b"\n", b"c" * 100_000 + b"\n"]
    arena.jobs, arena.logs = {"A-j1": arena.job("A-j1", state="ended")}, {"A-j1 out": b"".join(lines)}
    for tail in (1, 2, 3, 9):
        assert main(["logs", "A-j1", "--tail", str(tail)]) == 0
        assert capfdbinary.readouterr().out == b"".join(lines[-tail:])


def test_seal_writes_the_manifest_and_posts_it(arena: Arena, capsys: Capture) -> None:
    folder = checkpoint("ckpt", **{"optimizer.pt": "no"})
    assert main(["seal", "ckpt", "--step", "100", "--parent", "sha256:" + "0" * 64]) == 0
    said = capsys.readouterr()
    read = read_manifest((folder / "palestra.manifest.json").read_bytes())
    assert said.out.splitlines()[0] == "checkpoint A-k1"
    assert artifact_digest(read) in said.out
    assert (read.facts.step, len(read.files)) == (100, 3)
    assert "optimizer.pt" in said.err
    assert arena.asked[-1].body == {"path": "ckpt"}


def test_nominate_seals_first_when_needed_and_says_so(arena: Arena, capsys: Capture) -> None:
    checkpoint("ckpt")
    words = [
        "nominate",
        "ckpt",
        "--temperature",
        "0.2",
        "--stop",
        "END",
        "--stop",
        "Q:",
        "--max-tokens",
        "64",
        "--label",
        "first",
    ]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("sealed first: 2 files")
    assert "nomination A-n1" in out.splitlines()
    sent = arena.asked[-1].body
    assert sent["settings"] == {"temperature": "0.2", "stop": ["END", "Q:"], "max_tokens": 64}
    assert (sent["path"], sent["label"], sent["note"]) == ("ckpt", "first", "")
    assert main(["nominate", "ckpt"]) == 0
    assert "sealed first" not in capsys.readouterr().out
    (Path("ckpt") / "adapter_model.safetensors").write_text("other weights")
    assert main(["nominate", "ckpt"]) == 1
    assert "changed_since_seal" in capsys.readouterr().err
    assert len(arena.nominations) == 2


def test_nominate_waits_for_the_verdict(arena: Arena, capsys: Capture) -> None:
    checkpoint("ckpt")
    ends: Iterator[dict[str, Any]] = iter(
        [
            {"state": "validating"},
            {"state": "accepted", "current": True, "kind": "lora"},
            {"state": "rejected", "code": "unchanged", "message": "its weights are the base's"},
        ]
    )
    arena.polled = lambda found: found.update(next(ends))
    assert main(["nominate", "ckpt", "--wait"]) == 0
    assert "accepted, current" in capsys.readouterr().out
    assert main(["nominate", "ckpt", "--wait"]) == 1
    out = capsys.readouterr().out
    assert "rejected (unchanged)" in out
    assert "its weights are the base's" in out
    assert main(["nominate"]) == 0
    assert re.findall(r"A-n\d", capsys.readouterr().out) == ["A-n1", "A-n2"]


def test_finish_needs_a_yes(arena: Arena, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert main(["finish"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "confirm_finish" in said
    assert "$0.37 and 0.40 GPU-h are left" in said
    assert "finished_t" not in arena.status
    assert main(["finish", "--yes", "--note", "enough"]) == 0
    assert "finished at T+0:02:00" in capsys.readouterr().out
    assert arena.asked[-1].body == {"note": "enough", "confirm": True}


@pytest.mark.parametrize(("typed", "code"), [(b"yes\n", 0), (b"\n", 1)])
def test_finish_asks_at_a_terminal(arena: Arena, typed: bytes, code: int) -> None:
    leader, follower = pty.openpty()
    argv = [sys.executable, "-m", "palestra.client", "finish"]
    with subprocess.Popen(argv, stdin=follower, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as asking:
        os.write(leader, typed)
        assert asking.stderr
        assert b"GPU-h are left" in asking.stderr.read()
    os.close(leader)
    os.close(follower)
    assert asking.returncode == code
    assert ("finished_t" in arena.status) == (code == 0)


def test_help_is_complete_and_fits(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.strip() == help_text()
    assert max(map(len, text.splitlines())) <= 80
    for name in VERBS:
        assert f"  {name} " in text
        parser = build_parser(name)
        options = {option for action in parser._actions for option in action.option_strings}
        assert "--json" in options or name == "house"
    changing = [name for name in VERBS if "--request" in build_parser(name).format_help()]
    assert changing == ["submit", "cancel", "seal", "nominate", "finish"]
    assert main([]) == 2


def test_a_closed_pipe_ends_it_quietly(arena: Arena) -> None:
    arena.jobs, arena.logs = {"A-j1": arena.job("A-j1", state="ended")}, {"A-j1 out": b"line\n" * 200_000}
    argv = f"{sys.executable} -m palestra.client logs A-j1 | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", argv], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"line\n", b"")


def test_two_at_once_with_one_key_are_one_job(arena: Arena, capsys: Capture) -> None:
    """F09: same key, same answer."""
    words = ["submit", "--time", "5m", "--request", "once-and-only", "--", "true"]
    threads = [threading.Thread(target=main, args=(words,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(arena.jobs) == ["A-j1"]
    assert capsys.readouterr().out.count("job A-j1\n") == 4

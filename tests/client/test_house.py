"""The house harness against a scripted model: what it runs, what it tells the model, how it goes on after any end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.client.conftest import Arena, Says

HOUSE = [sys.executable, "-m", "palestra.client", "house"]


def house(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOUSE, *options],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def turn(body: dict[str, Any]) -> int:
    """The turn a scripted model is at: its own messages, and those before the context began."""
    before = re.search(r"^Turns so far: (\d+)$", body["messages"][1]["content"], re.MULTILINE)
    assert before
    return int(before[1]) + [message["role"] for message in body["messages"]].count("assistant")


def book(*turns: dict[str, Any]) -> str:
    """A playbook of these turns; a JSON string is a TOML string."""
    fields = [[f"{name} = {json.dumps(value)}" for name, value in turn.items()] for turn in turns]
    return "\n".join("\n".join(["[[turn]]", *lines]) for lines in fields)


class Model:
    """Plays replies by turn, and keeps what it was asked."""

    def __init__(self, arena: Arena, *replies: Says | Callable[[dict[str, Any]], Says]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.replies = replies
        self.arena = arena
        arena.model = self.play

    def play(self, body: dict[str, Any]) -> Says:
        self.bodies.append(body)
        at = turn(body)
        reply = self.replies[at] if at < len(self.replies) else self.arena.said("I have nothing left to do.")
        return reply(body) if callable(reply) else reply

    def results(self) -> list[str]:
        """All tool results that the model has seen in its last context."""
        return [message["content"] for message in self.bodies[-1]["messages"] if message["role"] == "tool"]


def entries() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(".house/conversation.jsonl").read_text().splitlines()]


def test_it_runs_commands_and_ends_when_finished(arena: Arena) -> None:
    finish = f"{sys.executable} -m palestra.client finish --yes; echo {{{{re:(out)}}}}"
    bodies = arena.plays(
        book(
            {"say": "Look.", "run": "echo out; echo err >&2; pwd; exit 3"},
            {"say": "Done.", "run": finish},
            {"say": "never"},
        )
    )
    done = house(PALESTRA_PROMPT="Win.")
    assert (done.returncode, done.stderr) == (0, "")
    assert "finished_t" in arena.status
    assert len(bodies) == 2
    system, user = bodies[0]["messages"]
    assert system["content"].startswith("Win.\n")
    for expected in (
        "Turns so far: 0\n",
        "# Rules\n\nBe fair – and quick.",
        "$0.37 left of $0.50",
        "(none yet)",
    ):
        assert expected in user["content"]
    assert bodies[0]["model"] == "house-mini"
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["shell"]
    asked, result = bodies[1]["messages"][2:]
    assert re.fullmatch(rf"out\nerr\n{Path.cwd()}\n\[exit 3, \d+\.\d s\]", result["content"])
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"]
    assert re.search(r"finished at .*\nout\n\[exit 0", entries()[-1]["message"]["content"])


def test_several_calls_in_one_message_run_in_order(arena: Arena) -> None:
    model = Model(arena, arena.said("", "echo 1 >> ran", "cat ran; echo 2 >> ran", "cat ran"))
    assert house("--idle", "1").returncode == 0
    assert [result.rpartition("[exit 0")[0] for result in model.results()] == ["", "1\n", "1\n2\n"]


def test_a_model_without_tools_uses_fenced_blocks(arena: Arena) -> None:
    model = Model(
        arena,
        arena.said("First\n```sh\necho one\necho two\n```\nthen\n```python\nprint(1)\n```\n"),
        arena.said("```bash\necho three\n```"),
    )
    assert house("--fences", "--idle", "1").returncode == 0
    assert "tools" not in model.bodies[0]
    roles = [message["role"] for message in model.bodies[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert model.bodies[-1]["messages"][3]["content"].startswith("one\ntwo\n[exit 0")


def test_a_model_that_has_used_the_tool_is_not_taken_at_its_fences(arena: Arena) -> None:
    model = Model(
        arena, arena.said("", "echo real"), arena.said("You could run\n```sh\ntouch example\n```\n")
    )
    assert house("--idle", "1").returncode == 0
    assert not Path("example").exists()
    assert len(model.results()) == 1


def test_nothing_to_do_several_times_ends_it(arena: Arena) -> None:
    model = Model(arena, arena.said("Hm."), arena.said("", "true"))
    done = house("--idle", "2")
    assert done.returncode == 0
    assert "no command to run in 2 replies" in done.stdout
    assert len(model.bodies) == 4
    assert "no command" in model.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_cut_call_is_never_run(arena: Arena, reason: str) -> None:
    """F10: the arguments look whole in one call and half in the other; neither runs, and the model is told."""
    model = Model(
        arena,
        arena.said("I run", "touch cut-1", ['{"command": "touch cut'], finish=reason),
        arena.said("```sh\ntouch cut-3\n```\n```sh\ntouch", finish=reason),
        arena.said("", "touch whole"),
    )
    assert house("--idle", "3").returncode == 0
    assert [path.name for path in Path().glob("[cw]*")] == ["whole"]
    assert "cut off" in model.bodies[1]["messages"][-1]["content"]
    assert all("tool_calls" not in message for message in model.bodies[2]["messages"])


def test_calls_that_cant_be_meant_are_answered_and_not_run(arena: Arena) -> None:
    """F19 among them: milliseconds given as seconds."""
    calls = [
        '{"command": "touch half',
        "[]",
        '{"command": 7}',
        '{"command": "touch late", "timeout_s": 900000}',
        '{"command": " "}',
    ]
    model = Model(arena, arena.said("", *([call] for call in calls)))
    assert house("--idle", "1").returncode == 0
    results = model.results()
    assert len(results) == 5
    assert all("nothing was run" in result for result in results)
    assert "at most 1800" in results[3]
    assert list(Path().glob("[hl]*")) == []


def test_a_command_over_its_time_limit_is_killed_with_all_it_started(arena: Arena) -> None:
    """F16: also what ignores TERM, and what runs behind the shell."""
    command = "(trap '' TERM; echo $$ >> pids; sleep 300 & echo $! >> pids; wait; sleep 300) & echo $! >> pids; echo here; wait"
    model = Model(arena, arena.said("", [json.dumps({"command": command, "timeout_s": 0.5})]))
    assert house("--idle", "1").returncode == 0
    assert model.results()[0].startswith("here\n[stopped after its time limit of 0.5 s")
    pids = [int(line) for line in Path("pids").read_text().split()]
    assert len(pids) == 3
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "something outlived its time limit"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_background_process_doesnt_hold_the_command_up(arena: Arena) -> None:
    model = Model(
        arena,
        arena.said("", "sleep 300 & echo $! > pid; echo started"),
        arena.said("", "kill $(cat pid); echo killed"),
    )
    assert house("--idle", "1").returncode == 0
    assert [result.splitlines()[0] for result in model.results()] == ["started", "killed"]


def test_long_output_is_cut_in_the_middle_and_odd_bytes_are_shown(arena: Arena) -> None:
    model = Model(
        arena,
        arena.said("", "printf begin; head -c 99999 /dev/zero | tr '\\0' x; printf end"),
        arena.said("", "printf '\\377\\033[0m\\n'; printf 'gr\\303\\274n'"),
        arena.said("", "i=0; while [ $i -lt 9000 ]; do printf 'ä'; i=$((i+1)); done"),
        arena.said("", "cat >/dev/null; echo no input"),
    )
    assert house("--idle", "1").returncode == 0
    first, second, third, fourth = model.results()
    assert first.startswith("begin")
    assert re.search(r"x\n\[\.\.\. 83623 bytes left out here \.\.\.\]\nx", first)
    assert "end\n[exit 0" in first
    assert len(first) < 17_000
    assert second.startswith("\\xff\x1b[0m\ngrün\n[exit 0")
    assert set(re.sub(r"\[.*?\]|\n", "", third)) == {"ä"}
    assert fourth.startswith("no input\n")


def test_a_command_longer_than_any_argument_may_be(arena: Arena) -> None:
    model = Model(arena, arena.said("", "cat > big <<'END'\n" + "x" * 300_000 + "\nEND\nwc -c < big"))
    assert house("--idle", "1", "--context-bytes", "2000000").returncode == 0
    assert model.results()[0].startswith("300001\n")


def test_the_context_begins_anew_from_the_notes(arena: Arena) -> None:
    long = "echo note-{0} >> NOTES.md; head -c 3000 /dev/zero | tr '\\0' {0}"
    bodies = arena.plays(book(*({"say": f"step {n}", "run": long.format(n)} for n in range(8))))
    assert house("--idle", "1", "--context-bytes", "12000").returncode == 0
    assert Path("NOTES.md").read_text().split() == [f"note-{n}" for n in range(8)]
    firsts = [body["messages"][1]["content"] for body in bodies if len(body["messages"]) == 2]
    assert len(firsts) > 2
    before = [int(text.partition("\n")[0].removeprefix("Turns so far: ")) for text in firsts]
    assert before[0] == 0
    assert before == sorted(set(before))
    for turns, text in zip(before[1:], firsts[1:], strict=True):
        assert f"note-{turns - 1}" in text
        assert str(turns - 1) * 100 in text  # what came of the last turn isn't lost
    assert any("will soon be cleared" in str(body["messages"]) for body in bodies)


def test_a_conversation_too_long_for_the_model_begins_anew_once(arena: Arena) -> None:
    too_long = arena.no(400, "context_length_exceeded", "too many tokens")
    refused: list[int] = []

    def grumble(body: dict[str, Any]) -> Says:
        if len(body["messages"]) > 2:
            refused.append(len(body["messages"]))
            return too_long
        return arena.said("", "echo again >> ran")

    Model(arena, arena.said("", "echo once >> ran"), grumble)
    done = house("--idle", "1")
    assert done.returncode == 0
    assert refused == [4]
    assert Path("ran").read_text() == "once\nagain\n"
    arena.model = lambda _: too_long
    Path(".house/conversation.jsonl").unlink()
    done = house()
    assert done.returncode == 5
    assert "context_length_exceeded" in done.stderr


def test_no_credit_ends_it_with_a_note(arena: Arena) -> None:
    """S84: the agent stops at once and leaves word; what it started goes on."""
    spent = arena.says(
        402,
        {
            "error": {
                "type": "insufficient_quota",
                "code": "insufficient_quota",
                "message": "$0.50 are spent.",
            }
        },
    )
    model = Model(arena, arena.said("", "echo mine > NOTES.md"), spent)
    assert house().returncode == 4
    assert len(model.bodies) == 2
    assert house().returncode == 4
    assert (
        Path("NOTES.md").read_text() == "mine\n\nAPI credit is spent, no more model calls: $0.50 are spent.\n"
    )


def test_it_waits_when_asked_to(arena: Arena) -> None:
    bodies = arena.plays(
        book(
            {"run": "echo 0 >> ran", "fault": "429", "fault_times": 3},
            {"run": "echo 1 >> ran", "fault": "500"},
            {"run": "echo 2 >> ran", "fault": "hangup"},
        )
    )
    play, paused = arena.model, arena.no(503, "paused", "the run is paused")
    first = [paused._replace(headers={"Retry-After": "0.05"}), paused, arena.says(200, b"garbage")]
    arena.model = lambda body: first.pop(0) if first else play(body)
    done = house("--idle", "1")
    assert done.returncode == 0, done.stderr
    assert Path("ran").read_text() == "0\n1\n2\n"
    assert first == []
    assert len(bodies) == 4 + 2 + 2 + 1


def test_it_gives_up_on_a_silent_server_after_its_patience(arena: Arena) -> None:
    arena.model = lambda _: arena.no(502, "bad_gateway", "nobody there")
    done = house(PALESTRA_PATIENCE_S="0.5")
    assert done.returncode == 3
    assert "bad_gateway" in done.stderr
    arena.stop()
    assert house(PALESTRA_PATIENCE_S="0.3").returncode == 3


def test_a_restarting_server_interrupts_nothing(arena: Arena) -> None:
    def restart(body: dict[str, Any]) -> Says:
        reply = arena.said("", "echo ran >> ran")
        if not tries:
            tries.append(1)
            arena.overrides = [None, None]  # hangs up on what comes next
        return reply

    tries: list[int] = []
    model = Model(arena, arena.said("", "true"), restart, restart)
    assert house("--idle", "1").returncode == 0
    assert Path("ran").read_text() == "ran\nran\n"
    assert turn(model.bodies[-1]) == 3


def test_only_one_harness_works_in_a_home(arena: Arena) -> None:
    second: list[int] = []

    def look(_: dict[str, Any]) -> Says:
        second.append(house().returncode)
        return arena.said("", "true")

    Model(arena, look)
    assert house("--idle", "1").returncode == 0
    assert second == [2]


def test_term_stops_the_command_and_the_next_life_says_so(arena: Arena) -> None:
    model = Model(
        arena,
        arena.said("", "echo $$ > pid; echo begun >> ran; exec sleep 300"),
        arena.said("", "echo after >> ran"),
    )
    process = subprocess.Popen([*HOUSE, "--idle", "1"], stdout=subprocess.DEVNULL)
    _until(lambda: Path("ran").exists() and Path("ran").read_text() == "begun\n")
    process.terminate()
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    _until(lambda: not _alive(int(Path("pid").read_text())))
    assert house("--idle", "1").returncode == 0
    assert Path("ran").read_text() == "begun\nafter\n"
    assert model.results()[0].startswith("[interrupted")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def test_killed_in_mid_command_it_doesnt_run_it_again(arena: Arena) -> None:
    """The command kills its own harness; what is left of it is stopped by the next life."""
    suicide = "echo $$ > pid; echo one >> ran; kill -9 $PPID; exec sleep 300"
    model = Model(arena, arena.said("", "echo zero >> ran", suicide, "echo two >> ran"))
    assert house("--idle", "1").returncode == -signal.SIGKILL
    left = int(Path("pid").read_text())
    assert _alive(left)
    assert house("--idle", "1").returncode == 0
    assert Path("ran").read_text() == "zero\none\ntwo\n"
    _until(lambda: not _alive(left))
    assert [result.startswith("[interrupted") for result in model.results()] == [False, True, False]


def test_a_half_written_last_line_is_dropped(arena: Arena) -> None:
    Model(arena, arena.said("", "echo ran >> ran"))
    assert house("--idle", "1").returncode == 0
    whole = Path(".house/conversation.jsonl").read_bytes()
    for cut in (1, 5, len(whole.splitlines(keepends=True)[-1]) - 1):
        Path(".house/conversation.jsonl").write_bytes(whole[:-cut])
        assert house("--idle", "1").returncode == 0
        assert all(entries())
        assert Path("ran").read_text() == "ran\n"
    Path(".house/conversation.jsonl").write_bytes(b"not json\n" + whole)
    done = house()
    assert done.returncode == 1
    assert "line 1" in done.stderr


@pytest.mark.parametrize("cut_at", range(7))
def test_from_any_whole_line_on_it_goes_on(arena: Arena, cut_at: int) -> None:
    """Each prefix of the conversation file is a place where kill -9 may have struck."""
    model = Model(arena, arena.said("", "echo 0 >> ran"), arena.said("", "echo 1 >> ran"))
    assert house("--idle", "1").returncode == 0
    lines = Path(".house/conversation.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [sorted(json.loads(line).keys() - {"message"}) for line in lines]
    assert kinds == [
        ["begin"],
        ["finish"],
        ["running"],
        ["answers"],
        ["finish"],
        ["running"],
        ["answers"],
        ["finish"],
    ]
    Path(".house/conversation.jsonl").write_bytes(b"".join(lines[:cut_at]))
    started = sum("running" in kind for kind in kinds[:cut_at])
    Path("ran").write_text("".join(f"{n}\n" for n in range(started)))
    assert house("--idle", "1").returncode == 0
    assert Path("ran").read_text() == "0\n1\n"
    assert turn(model.bodies[-1]) == 2


@pytest.mark.slow
def test_kill_9_at_random_points_runs_nothing_twice_and_loses_nothing(arena: Arena) -> None:
    """40 kills: each command ran at most once; if it isn't among the interrupted, exactly once."""
    turns, chance = 30, random.Random(20)
    long = "echo {0} >> ran; head -c 600 /dev/zero | tr '\\0' y"
    bodies = arena.plays(book(*({"say": f"turn {n}", "run": long.format(n)} for n in range(turns))))
    kills, lives = 0, 0
    while True:
        lives += 1
        assert lives < 400, "it never gets to the end"
        process = subprocess.Popen(
            [*HOUSE, "--idle", "1", "--context-bytes", "9000"], stdout=subprocess.DEVNULL
        )
        try:
            code = process.wait(timeout=chance.uniform(0.05, 0.6) if kills < 40 else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        assert code == 0
        if kills >= 10:
            break
        Path(".house/conversation.jsonl").unlink()  # it got to the end too soon: once more from the start
        Path("ran").unlink()
    ran = [int(line) for line in Path("ran").read_text().split()]
    assert ran == sorted(set(ran)), "a command ran twice, or out of order"
    interrupted = sum(
        "[interrupted" in str(entry.get("message")) for entry in entries() if "answers" in entry
    )
    assert turns - len(ran) <= interrupted
    assert turn(bodies[-1]) == turns
    assert any("reset" in entry for entry in entries())

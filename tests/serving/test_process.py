"""A model server as a child: ready is a first real answer, a failed start has the log's end, stopping leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from palestra.events.nominations import AnswerSettings
from palestra.ports import Question
from palestra.rules.competition import Serving
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import GIB, MINUTE, SECOND, Bytes, Micros
from palestra.serving.process import ServerProcess, server_argv
from palestra.serving.vllm import vllm_argv

FAKE = (sys.executable, "-m", "palestra.serving.fake", "--socket", "{socket}")
HELLO = [Question("q1", (("user", "hi"),), 8)]
SETTINGS = AnswerSettings()
BUDGET = Micros(MINUTE)


def wait_until(so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not so():
        assert time.monotonic() < give_up
        time.sleep(0.01)  # between two looks


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_ready_is_the_first_real_answer_not_the_first_ok(tmp_path: Path) -> None:
    """F41: healthy at once with an empty model list, answers after a while: that while is what is reported."""
    with ServerProcess((*FAKE, "--slow-start", "0.7"), tmp_path / "log") as server:
        started = server.wait_ready(HELLO, SETTINGS, BUDGET)
    assert started.ready >= 700_000
    assert started.endpoint.model == "nominated"


def test_a_server_that_is_not_ready_in_time_is_given_up(tmp_path: Path) -> None:
    """F41: the start-up budget is for the first answer."""
    with (
        ServerProcess((*FAKE, "--slow-start", "3600"), tmp_path / "log") as server,
        pytest.raises(Broken, match=r"not ready within 0\.5 s: .*(models is empty|never healthy)"),
    ):
        server.wait_ready(HELLO, SETTINGS, Micros(SECOND // 2))


def test_a_server_that_ends_has_the_last_word(tmp_path: Path) -> None:
    """S26: the log of a failed start is what the entrant gets; earlier servers' lines are not in it."""
    (tmp_path / "log").write_text("an earlier server's line\n")
    argv = ("/bin/sh", "-c", "echo weights do not fit >&2; exit 7")
    with (
        ServerProcess(argv, tmp_path / "log") as server,
        pytest.raises(Broken, match=r"exit code 7; its log ends: weights do not fit$"),
    ):
        server.wait_ready(HELLO, SETTINGS, BUDGET)


def test_a_program_that_is_not_there_is_broken(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="no-such-program: No such file"):
        ServerProcess(("no-such-program",), tmp_path / "log")


def test_questions_that_are_refused_end_the_wait(tmp_path: Path) -> None:
    """A setting that the server refuses is known after the first questions, not after the whole budget."""
    refused = [Question(f"q{n}", (("assistant", "hi"),), 8) for n in range(3)]
    with (
        ServerProcess(FAKE, tmp_path / "log") as server,
        pytest.raises(
            Broken, match=r"answers none of the first questions: .*last message must be the user's"
        ),
    ):
        server.wait_ready(refused, SETTINGS, BUDGET)


def test_one_refused_question_does_not_stop_the_start(tmp_path: Path) -> None:
    odd = Question("odd", (("assistant", "hi"),), 8)
    with ServerProcess(FAKE, tmp_path / "log") as server:
        assert server.wait_ready([odd, *HELLO], SETTINGS, BUDGET).ready > 0


def test_stopping_takes_the_whole_group(tmp_path: Path) -> None:
    """A server that ignores TERM and has a child of its own: both are gone, and the socket's folder too."""
    script = "trap '' TERM; sleep 1000 & echo $! > child; echo up; wait; wait"
    argv = ("/bin/sh", "-c", f"cd {tmp_path}; {script}")
    server = ServerProcess(argv, tmp_path / "log")
    wait_until(lambda: "up" in server.tail())
    child = int((tmp_path / "child").read_text())
    server.stop(grace=Micros(SECOND // 10))
    wait_until(lambda: is_gone(child))
    assert server.process.returncode == -signal.SIGKILL
    assert not server.folder.exists()
    server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child's life to its parent's")
def test_a_killed_program_leaves_no_server_behind(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom palestra.serving.process import ServerProcess\n"
        f"server = ServerProcess({FAKE!r}, Path('log'), Path())\nprint(server.process.pid, flush=True)\ntime.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout
        pid = int(program.stdout.readline())
        program.kill()
        program.wait()
        wait_until(lambda: is_gone(pid))


def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(BadInput, match="socket folder"):
        ServerProcess(FAKE, tmp_path / "log", deep)
    assert list(deep.iterdir()) == []


def test_the_rules_argv_is_chosen_by_what_the_artifact_holds(tmp_path: Path) -> None:
    rule = Serving(
        base=("serve", "{base}"),
        adapter=("serve", "{base}", "--adapter", "n={adapter}"),
        full=("serve", "{base}", "--model", "{model}", "{socket}"),
        memory=Bytes(GIB),
        longest=BUDGET,
    )
    base, full, lora = (tmp_path / name for name in ("base", "full", "lora"))
    full.mkdir()
    lora.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (lora / name).touch()
    assert server_argv(rule, base, None) == ("serve", str(base))
    assert server_argv(rule, base, lora) == ("serve", str(base), "--adapter", f"n={lora}")
    assert server_argv(rule, base, full) == ("serve", str(base), "--model", str(full), "{socket}")


def test_a_vllm_command_line_names_the_nominated_model() -> None:
    base, mine = Path("/base"), Path("/vault/abc")
    adapter = " ".join(vllm_argv(base, adapter=mine, rank=64, context=4096))
    assert "serve /base --uds {socket} --served-model-name base" in adapter
    assert (
        "--max-model-len 4096 --enable-lora --max-lora-rank 64 --lora-modules nominated=/vault/abc" in adapter
    )
    full = " ".join(vllm_argv(base, full=mine, gpus=2))
    assert "serve /vault/abc --uds {socket} --served-model-name nominated --tensor-parallel-size 2" in full
    assert "--tokenizer /base" in full and "lora" not in full
    with pytest.raises(ValueError, match="not both"):
        vllm_argv(base, full=mine, adapter=mine)

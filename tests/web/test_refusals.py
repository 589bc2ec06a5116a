"""Every no of the entrant's door: its status, its code, the field and value it names, and what it says is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.building import GB, competition
from tests.web.arena import Arena, serving

from palestra.events.runs import Refused
from palestra.referee.requests import Finish
from palestra.rules.competition import Node
from palestra.rules.units import MINUTE, Bytes

VERBS = [
    ("GET", "/arena/status"), ("GET", "/arena/rules"), ("GET", "/arena/jobs"), ("POST", "/arena/jobs"),
    ("GET", "/arena/jobs/A-j1"), ("GET", "/arena/jobs/A-j1/log"), ("POST", "/arena/jobs/A-j1/cancel"),
    ("POST", "/arena/seals"), ("GET", "/arena/nominations"), ("POST", "/arena/nominations"),
    ("GET", "/arena/nominations/A-n1"), ("POST", "/arena/finish"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"),
]  # fmt: skip


def test_every_verb_wants_the_corners_own_token(shared: Arena) -> None:
    """F08: another corner's token is useless here, and nothing works without one."""
    for method, path in VERBS:
        for token in ("", "wrong", "token-of-B", "token-of-A ", "TOKEN-OF-A"):
            answer = shared.ask(method, path, {}, token=token)
            assert answer.status == 401, (method, path, token)
            assert answer.error["code"] == "unknown_token"
            assert answer.error["message"] == "this door opens to its corner's own token only"
    assert not any(isinstance(event, Refused) for event in shared.events)


def test_a_token_may_come_as_api_key(shared: Arena) -> None:
    """Some clients of model APIs send it so."""
    assert shared.ask("GET", "/arena/status", token="", **{"X-Api-Key": "token-of-A"}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "code", "status"),
    [
        ("GET", "/arena/jobs/A-j99", "no_such_job", 404),
        ("GET", "/arena/jobs/B-j1", "no_such_job", 404),
        ("GET", "/arena/jobs/A-j99/log", "no_such_job", 404),
        ("POST", "/arena/jobs/B-j1/cancel", "no_such_job", 404),
        ("GET", "/arena/nominations/A-n9", "no_such_nomination", 404),
        ("GET", "/arena/jobs/%00", "no_such_job", 404),
        ("GET", "/arena/jobs/..%2F..", "unknown_path", 404),
        ("GET", "/arena/nothing", "unknown_path", 404),
        ("GET", "/arena/", "unknown_path", 404),
        ("DELETE", "/arena/jobs", "unknown_method", 405),
        ("GET", "/arena/finish", "unknown_method", 405),
    ],
)
def test_unknown_ids_and_paths(arena: Arena, method: str, path: str, code: str, status: int) -> None:
    arena.submit(corner="B")
    answer = arena.ask(method, path, {} if method == "POST" else None)
    assert (answer.status, answer.error["code"]) == (status, code)


@pytest.mark.parametrize(
    ("fields", "field", "value", "right"),
    [
        # F18: what could mean two things is refused on every route, with both meanings
        ({"time": "2:00"}, "time", "2:00", "2h00m or 2m00s"),
        ({"time": "120"}, "time", "120", "120s, 120m or 120h"),
        ({"time": 120}, "time", "120", "120s, 120m or 120h"),
        ({"time": "1h 90"}, "time", "1h 90", "90m, 2h30m or PT2H"),
        ({"time": ""}, "time", "", "90m, 2h30m or PT2H"),
        ({"time": None}, "time", "", "for example 90m; there is no default"),
        ({"time": "-5m"}, "time", "-5m", "90m, 2h30m or PT2H"),
        ({"time": "0s"}, "time", "0s", "longer than zero"),
        # F19: 900000 milliseconds
        ({"time": "900000"}, "time", "900000", "if these are milliseconds, 900000ms"),
        ({"time": {"h": 1}}, "time", "{'h': 1}", "a duration is text with a unit"),
        # F20: a bare number of bytes, or is it megabytes
        ({"memory": "64"}, "memory", "64", "GiB"),
        ({"memory": 64}, "memory", "64", "64GiB"),
        ({"memory": "64G"}, "memory", "64G", "GiB, TiB or decimal kB, MB, GB, TB"),
        ({"memory": "0GiB"}, "memory", "0GiB", "at least 1 B"),
        ({"gpus": "two"}, "gpus", "two", "a whole number"),
        ({"gpus": 1.5}, "gpus", "1.5", "a whole number"),
        ({"gpus": True}, "gpus", "true", "a whole number"),
        ({"argv": "train.py"}, "argv", "train.py", "a list"),
        ({"argv": []}, "argv", "[]", "a list of texts, the program first"),
        ({"argv": [""]}, "argv", "['']", "a list of texts, the program first"),
        ({"argv": ["python", 3]}, "argv[1]", "3", "text"),
        ({"tme": "1h"}, "tme", "1h", "known are argv, time, gpus, memory"),
        ({"script": 5}, "script", "5", "text or nothing (null)"),
        ({"script": "x" * (1 << 20) + "é"}, "script", "1048577 characters", "at most 1 MiB"),
        ({"outputs": "ckpt"}, "outputs", "ckpt", "a list"),
    ],
)  # fmt: skip
def test_bad_input_names_field_value_and_what_is_right(
    shared: Arena, fields: dict[str, Any], field: str, value: str, right: str
) -> None:
    answer = shared.submit(**({"argv": fields["argv"]} if "argv" in fields else {}), **{k: v for k, v in fields.items() if k != "argv"})  # fmt: skip
    assert answer.status == 422
    error = answer.error
    assert (error["code"], error["field"], error.get("value", "")) == ("bad_input", field, value)
    assert error["message"].startswith(f"{field}: ") and right in error["message"]
    assert not shared.ask("GET", "/arena/jobs").json["jobs"]


def test_what_is_missing_is_named(shared: Arena) -> None:
    error = shared.ask("POST", "/arena/jobs", {"time": "1h"}).error
    assert (error["field"], error["message"]) == ("argv", "argv: '' can't be read; this field is needed")
    error = shared.ask("POST", "/arena/nominations", {"path": "x", "settings": {"max_tokens": "64"}}).error
    assert (error["field"], error["value"]) == ("settings.max_tokens", "64")
    error = shared.ask("POST", "/arena/nominations", {"path": "x", "settings": {"topp": "1"}}).error
    assert (error["field"], error["value"]) == ("settings.topp", "1")
    assert error["message"] == "settings.topp: '1' can't be read; there is no such field here"


@pytest.mark.parametrize(
    ("fields", "code", "field", "said"),
    [
        ({"gpus": 9}, "gpus_out_of_range", "gpus", "gpus = 9; a job may have 1 to 8"),
        ({"gpus": 0}, "gpus_out_of_range", "gpus", "gpus = 0; a job may have 1 to 8"),
        # F20: 65 GiB is over a cap of 64 GB; 64 GB is the cap itself
        ({"memory": "65GiB"}, "memory_over_cap", "memory", "memory = 65 GiB for 1 GPU; the cap is 59.6 GiB per GPU"),
        ({"memory": "64GiB"}, "memory_over_cap", "memory", "the cap is 59.6 GiB per GPU"),
        ({"time": "5h"}, "time_over_limit", "time", "time = 5 h; a job may ask for at most 4 h"),
        # F19: 900000 s
        ({"time": "900000s"}, "time_over_limit", "time", "time = 10 d 10 h; a job may ask for at most 4 h"),
    ],
)  # fmt: skip
def test_what_the_referee_refuses(
    arena: Arena, fields: dict[str, Any], code: str, field: str, said: str
) -> None:
    answer = arena.submit(**fields)
    assert answer.status == 409
    assert (answer.error["code"], answer.error["field"]) == (code, field)
    assert said in answer.error["message"]
    # the first is an event, the second is only counted
    arena.submit(**fields)
    assert [event.code for event in arena.events if isinstance(event, Refused)] == [code]
    shown = arena.run("submit", "--time", str(fields.get("time", "1h")), "--gpus", str(fields.get("gpus", 1)),
                      "--memory", fields.get("memory", "1GB"), "--", "true")  # fmt: skip
    assert shown.code == 1 and f"refused ({code})" in shown.words


def test_decimal_and_binary_sizes_differ(arena: Arena) -> None:
    """F20: 64GB is fine under a cap of 64 GB, and is echoed in binary units."""
    answer = arena.submit(memory="64GB")
    assert answer.status == 201
    assert answer.json["understood"]["memory"] == "59.6 GiB"


def test_more_than_the_stage_has_left(arena: Arena) -> None:
    arena.settle(5 * 60 * MINUTE)
    error = arena.submit(time="2h").error
    assert error["code"] == "time_over_stage" and error["facts"] == {"left": 3_600_000_000}
    assert "more than the stage has left (1 h)" in error["message"]
    arena.settle(60 * MINUTE)
    error = arena.submit(time="1m").error
    assert error["code"] == "stage_over"


def test_a_full_queue_and_a_spent_allowance() -> None:
    with serving(
        competition(queued=1, nodes=[Node("n1", 1, Bytes(64 * GB))], gpu_time=120 * MINUTE)
    ) as arena:
        arena.submit(time="1h")
        arena.submit(time="1h")
        error = arena.submit(time="1h").error
        assert (error["code"], error["facts"]) == ("queue_full", {"waiting": 1})
        error = arena.submit(time="3h").error
        assert error["code"] == "gpu_time_spent"
        assert "1 GPU for 3 h holds 3.00 GPU-h; 2.00 GPU-h is not yet spent" in error["message"]


def test_logs_before_the_start_and_a_stream_that_is_not_there() -> None:
    with serving(competition(gpus_running=1)) as arena:
        arena.submit()
        arena.submit()
        answer = arena.ask("GET", "/arena/jobs/A-j2/log")
        assert (answer.status, answer.error["code"]) == (409, "not_started")
        assert answer.error["message"] == "A-j2 has not started, so it has no output yet"
        answer = arena.ask("GET", "/arena/jobs/A-j1/log?stream=both")
        assert (answer.status, answer.error["field"], answer.error["value"]) == (422, "stream", "both")
        for query, field in (("offset=1.5", "offset"), ("limit=all", "limit"), ("offset=", "offset")):
            answer = arena.ask("GET", f"/arena/jobs/A-j1/log?{query}")
            assert (answer.status, answer.error["field"]) == (422, field), query
            assert "a whole number" in answer.error["message"]


LEAVING = ["..", "../B", "out/../../..", "/etc", "/", "link-out", "link-out/x", "link-up/../.."]


@pytest.mark.parametrize("path", LEAVING)
def test_paths_that_leave_the_home(arena: Arena, path: str) -> None:
    home = arena.home()
    (home / "link-out").symlink_to("/tmp")
    (home / "link-up").symlink_to("..")
    (home / "out").mkdir()
    bodies = [
        ("/arena/jobs", {"argv": ["true"], "time": "1m", "cwd": path}, "cwd"),
        ("/arena/jobs", {"argv": ["true"], "time": "1m", "outputs": ["ok", path]}, "outputs"),
        ("/arena/seals", {"path": path}, "path"),
        ("/arena/nominations", {"path": path}, "path"),
    ]
    for verb, body, field in bodies:
        answer = arena.ask("POST", verb, body)
        assert (answer.status, answer.error["field"], answer.error["value"]) == (422, field, path)
        assert "inside your home" in answer.error["message"]
    assert not [
        event for event in arena.events if type(event).__name__ in ("JobSubmitted", "CheckpointSealed")
    ]


def test_outputs_lie_below_the_jobs_own_folder(arena: Arena) -> None:
    (arena.home() / "work").mkdir()
    assert arena.submit(cwd="work", outputs=["../ckpt"]).status == 201
    assert arena.submit(cwd="work", outputs=["../../ckpt"]).status == 422


@pytest.mark.parametrize("path", ["a" * 300, "x/" * 3000, "circle", "odd-name", "file/below"])
def test_paths_that_cannot_be_followed(arena: Arena, path: str) -> None:
    home = arena.home()
    (home / "circle").symlink_to("circle")
    (home / "odd-name").symlink_to(b"not-text-\xff".decode("utf-8", "surrogateescape"))
    (home / "file").write_text("")
    answer = arena.ask("POST", "/arena/seals", {"path": path})
    assert answer.status in (422, 409)
    assert answer.error["code"] in ("bad_input", "not_sealed")
    assert re.search("can be opened|seal it first", answer.error["message"])


def test_what_isnt_sealed_can_be_neither_recorded_nor_nominated(arena: Arena) -> None:
    """S37: the refusal names the rule and what to do."""
    folder = arena.checkpoint("raw")
    for verb in ("/arena/seals", "/arena/nominations"):
        answer = arena.ask("POST", verb, {"path": "raw"})
        assert (answer.status, answer.error["code"]) == (409, "not_sealed")
        assert "`arena seal raw`" in answer.error["message"]
    (folder / "palestra.manifest.json").symlink_to("/etc/passwd")
    assert arena.ask("POST", "/arena/seals", {"path": "raw"}).error["code"] == "not_sealed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{}", "not a manifest"),
        (b"\xff\x00", "not a manifest"),
        (b'{"facts":{},"files":[],"format":"palestra-manifest/1"}', "1 to 200 files"),
        (b'{"facts":{},"files":[{"bytes":1,"path":"../x","sha256":"0"}],"format":"palestra-manifest/1"}', "without '..'"),
        (b" " * (5 << 20), "more than 4 MiB"),
    ],
)  # fmt: skip
def test_manifests_that_are_none(arena: Arena, text: bytes, said: str) -> None:
    (arena.checkpoint("odd") / "palestra.manifest.json").write_bytes(text)
    answer = arena.ask("POST", "/arena/nominations", {"path": "odd"})
    assert answer.status == 422 and said in answer.error["message"]


def test_settings_that_cannot_be_served(arena: Arena) -> None:
    arena.checkpoint("one")
    arena.run("seal", "one")
    for settings, field in (
        ({"temperature": "hot"}, "temperature"), ({"temperature": "3"}, "temperature"), ({"top_p": "NaN"}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"), ({"stop": ["a"] * 5}, "stop"), ({"system_prompt": "x" * 2001}, "system_prompt"),
    ):  # fmt: skip
        answer = arena.ask("POST", "/arena/nominations", {"path": "one", "settings": settings})
        assert (answer.status, answer.error["code"], answer.error["field"]) == (409, "bad_settings", field)


def test_the_same_nomination_twice_and_too_many(arena: Arena) -> None:
    arena.checkpoint("one")
    arena.run("nominate", "one")
    again = arena.run("nominate", "one")
    assert (
        again.code == 1
        and "already_nominated" in again.words
        and "on its way already, as A-n1" in again.words
    )
    for temperature in ("0.1", "0.2", "0.3"):
        assert arena.run("nominate", "one", "--temperature", temperature).code == 0
    full = arena.run("nominate", "one", "--temperature", "0.4")
    assert full.code == 1 and "too_many_pending" in full.words


def test_after_finishing_nothing_but_looking_and_cancelling(arena: Arena) -> None:
    arena.submit()
    arena.rule(Finish("A", None))
    assert arena.submit().error["code"] == "finished"
    assert arena.ask("POST", "/arena/finish", {}).error["code"] == "finished"
    assert arena.ask("GET", "/arena/jobs/A-j1").status == 200
    assert arena.ask("GET", "/arena/status").json["finished_t"] == "T+0:00"


def test_a_home_behind_a_link_is_fine(arena: Arena, tmp_path: Path) -> None:
    """Organisers put homes on other disks; what counts is where the home really is."""
    home = arena.home()
    moved = tmp_path / "elsewhere"
    home.rename(moved)
    home.symlink_to(moved)
    arena.checkpoint("one")
    assert arena.run("seal", "one").code == 0
    assert arena.submit(cwd=str(moved)).status == 201

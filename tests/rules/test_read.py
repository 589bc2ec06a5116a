"""`read_competition`: what is understood of a rules file, and every fault at once with line, key, value and hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules import keys
from palestra.rules.competition import (
    Allowance,
    Base,
    Competition,
    Data,
    EntrantRule,
    Exam,
    JobRules,
    Model,
    Node,
    Prepare,
    Serving,
    Stages,
    Upstream,
)
from palestra.rules.prices import Price
from palestra.rules.read import BadCompetition
from palestra.rules.times import show_utc
from palestra.rules.units import DOLLAR, GIB, HOUR, MINUTE

if TYPE_CHECKING:
    from tests.rules.conftest import Whole


def test_a_whole_file_is_understood(whole: Whole) -> None:
    rules = whole.read()
    assert rules.stages.start is not None
    assert show_utc(rules.stages.start) == "2026-12-01 15:04:00Z"
    assert rules.stages.running == 144 * HOUR
    assert (rules.allowance.api_credit, rules.allowance.gpu_time) == (300 * DOLLAR, 1_000 * HOUR)
    assert rules.data == (Data(name="pool", path="data/pool"),)
    assert [node.gpu_kind for node in rules.nodes] == ["H100", "slot"]
    assert rules.jobs.memory_per_gpu == 32 * GIB, "64 GiB over 2 is less than 513 GiB over 8"
    assert rules.upstreams[0].url == "https://api.lab.example/v1"
    assert rules.entrants[1].command == ("python", "agent.py")
    assert rules.serving.adapter[-1] == '{"a": 1}'
    assert rules.exam.args == ()


def test_f06_a_price_is_per_million_tokens_and_cache_prices_default_to_input(whole: Whole) -> None:
    big, played = whole.read().models
    assert msgspec.to_builtins(big.price) == {
        "input": 1_250_000_000,
        "output": 10 * DOLLAR,
        "cached_input": 125_000_000,
        "cache_write": 1_250_000_000,
    }
    assert (big.upstream_model, big.output_ceiling, big.output_floor) == ("big-1", 8_192, 256)
    assert (played.price.cached_input, played.output_ceiling, played.output_floor) == (0, 100, 100)


def test_f06_a_model_without_a_price_is_refused(whole: Whole) -> None:
    assert whole.only_fault(('output = "$10"\n', "")) == (
        "competition.toml:48: models[0].output: missing; no price, no call; "
        'write dollars per million tokens, for example "$1.25": The price of output.'
    )


def test_f18_s50_a_clock_time_is_refused_with_line_key_value_and_both_readings(whole: Whole) -> None:
    assert whole.only_fault(('longest = "12h"', 'longest = "2:00"')) == (
        'competition.toml:35: jobs.longest = "2:00": write the unit: 2h00m or 2m00s, for example 2h, 2m or PT2H'
    )


def test_all_faults_come_at_once_in_the_order_of_the_file(whole: Whole) -> None:
    text = whole.changed(
        ("palestra = 1", "palestra = 2"),
        ("Europe/Berlin", "Europe/Berln"),
        ('closing = "1h"', "closing = 3600"),
        ('api_credit = "$300"', "api_credit = 300"),
        ("gpus = 8", 'gpus = "8"'),
        ('"LAB_KEY"', '"sk-LAB KEY"'),
        ('model = "played"', 'model = "playd"'),
        ("questions = 1000", "questions = 0"),
    )
    assert [fault.split(": ")[:2] for fault in whole.faults(text)] == [
        ["competition.toml:1", "palestra = 2"],
        ["competition.toml:4", 'zone = "Europe/Berln"'],
        ["competition.toml:9", "stages.closing = 3600"],
        ["competition.toml:13", "allowance.api_credit = 300"],
        ["competition.toml:25", 'nodes[0].gpus = "8"'],
        ["competition.toml:42", "upstreams[0].key_env = (not shown)"],
        ["competition.toml:65", 'entrants[0].model = "playd"'],
        ["competition.toml:86", "exam.questions = 0"],
    ]


def test_an_empty_file_names_every_table_that_is_missing(whole: Whole) -> None:
    found = whole.faults("")
    assert all(fault.startswith("competition.toml:1: ") for fault in found)
    assert [fault.split(": ")[1] for fault in found] == [
        "palestra", "name", "title", "stages", "allowance", "base", "nodes", "jobs", "entrants", "serving", "exam",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('a = "x\nb = 1', 1, "Illegal character"),
        ("[a]\nb = 1\n[a]\n", 3, "Cannot declare"),
        ("a = 1\n\na = 2", 3, "Cannot overwrite"),
        ("x = 1\n\ny = [1,\n", 3, "not TOML"),
        ("a = 2026-13-01", 1, "not TOML"),
        ("a = " + "9" * 5_000, 1, "not TOML"),
        ("a = " + "[" * 50_000, 1, "nested too deep"),
        ("\ufeffa = 1", 1, "Invalid statement"),
    ],
)
def test_what_is_not_toml_is_a_fault_with_its_line(whole: Whole, text: str, line: int, said: str) -> None:
    (found,) = whole.faults(text)
    assert found.startswith(f"competition.toml:{line}: ")
    assert said in found


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('running = "144h"', 'runing = "144h"', "stages.runing = \"144h\": unknown key; did you mean running?"),
        ('closing = "1h"', 'closing = "1h"\nqueued = 3', "stages.queued = 3: unknown key; it belongs in [jobs]"),
        ("[allowance]", "[allowances]", "allowances: unknown key; did you mean allowance?"),
        ('title = "The', 'hall = 2\ntitle = "The', "hall = 2: unknown key; here may stand palestra, name, title"),
        ("questions = 1000", 'questions = 1000\n"odd key" = {}', 'exam."odd key": unknown key'),
    ],
)  # fmt: skip
def test_unknown_keys_are_faults_with_the_nearest_known_one(
    whole: Whole, old: str, new: str, fault: str
) -> None:
    assert any(fault in found for found in whole.faults(whole.changed((old, new))))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[stages]", "[[stages]]", "competition.toml:6: stages: write it once, as a table: [stages]"),
        ("[base]", "base = 3\n[other]", "allowance.base = 3: unknown key"),
        (
            "[[data]]",
            "[data]",
            "competition.toml:19: data: write it as a table that may be repeated: [[data]]",
        ),
    ],
)
def test_tables_stand_as_often_as_they_may(whole: Whole, old: str, new: str, fault: str) -> None:
    assert any(fault in found for found in whole.faults(whole.changed((old, new))))


def test_dotted_keys_and_inline_tables_are_the_same_file(whole: Whole) -> None:
    text = whole.changed(
        ('[base]\npath = "/models/base"\n', ""),
        (
            "palestra = 1",
            'palestra = 1\nbase.path = "/models/base"\nexam = {program = "exam.py", questions = 1000}',
        ),
        ('[exam]\nprogram = "exam.py"\nquestions = 1000\n', ""),
    )
    assert whole.read(text) == whole.read()


# Keys and paths


@pytest.mark.parametrize("name", ["key", "api_key", "token", "secret", "password"])
def test_f35_a_key_in_the_file_is_refused_with_why_and_never_repeated(whole: Whole, name: str) -> None:
    fault = whole.only_fault(('key_env = "LAB_KEY"', f'{name} = "sk-verysecret"'))
    assert "sk-verysecret" not in fault
    assert "no keys in this file, which becomes part of the record" in fault
    assert "key_env" in fault


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/v1",
        "x/v1",
        "https://user:sk-verysecret@x/v1",
        "https://x/v1?key=sk-verysecret",
        "http://",
        "http://x y",
        3,
    ],
)
def test_f35_an_address_holds_no_key(whole: Whole, url: object) -> None:
    written = f'"{url}"' if isinstance(url, str) else str(url)
    fault = whole.only_fault(('"https://api.lab.example/v1/"', written))
    assert "sk-verysecret" not in fault
    assert "an address without name, key or query" in fault


@pytest.mark.parametrize("path", ["../x", "a/../../x", "~/x", "", ".", "a\\\\b", "a\\u0000", "a\\nb"])
def test_f33_relative_paths_stay_inside_the_folder(whole: Whole, path: str) -> None:
    for old in ('"data/./pool/"', '"/models/base"', '"exam.py"', '"playbooks"'):
        assert "path" in whole.only_fault((old, f'"{path}"'))


def test_a_program_of_the_exam_is_never_outside_the_folder(whole: Whole) -> None:
    assert "relative to this file's folder" in whole.only_fault(('"exam.py"', '"/opt/exam.py"'))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "first-arena"', 'name = "First Arena"'),
        ('name = "first-arena"', 'name = "../x"'),
        ('title = "The first arena"', 'title = "The\\nfirst"'),
        ('title = "The first arena"', 'title = "\\u0085"'),
        ('title = "The first arena"', 'title = " "'),
        ('title = "The first arena"', f'title = "{"x" * 121}"'),
        ('title = "The first arena"', 'title = ["x"]'),
        ("gpus = 8", "gpus = true"),
        ("gpus = 8", "gpus = 0"),
        ("gpus = 8", "gpus = 8.0"),
        ('judging = "5h"', 'judging = "5h"\nend_when_all_finished = "yes"'),
        ('judging = "5h"', 'judging = "5h"\npause = "stop"'),
        ('command = ["python", "agent.py"]', 'command = "python agent.py"'),
        ('command = ["python", "agent.py"]', "command = []"),
        ('command = ["python", "agent.py"]', "command = [1]"),
        ('command = ["python", "agent.py"]', 'command = ["a\\u0000"]'),
        ("questions = 1000", "questions = 1000\nargs = 3"),
        ("questions = 1000", 'questions = 1000\nargs = ["x", 3]'),
        ('gpu_time = "1000h"', 'gpu_time = "1000"'),
        ('api_credit = "$300"', 'api_credit = "300 USD"'),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_fault_with_what_would_be_right(
    whole: Whole, old: str, new: str
) -> None:
    fault = whole.only_fault((old, new))
    key, _, right = fault.partition(": ")[2].partition(": ")
    assert "=" in key
    assert len(right) > 10


def test_optional_keys_can_all_be_given(whole: Whole) -> None:
    rules = whole.read(
        whole.changed(
            ('judging = "5h"', 'judging = "5h"\npause = "absorb"\nend_when_all_finished = true'),
            (
                'longest = "12h"',
                'longest = "12h"\nmemory_per_gpu = "64GB"\nqueued = 9\nenvironment = "/opt/env/bin"',
            ),
            ('model = "played"', 'model = "played"\nlab = "House"'),
            ("questions = 1000", 'questions = 1000\nargs = ["", "--tier"]'),
            ("[[data]]", '[[prepare]]\ncreates = "base"\nrun = ["make", "base"]\n\n[[data]]'),
            ('zone = "Europe/Berlin"', 'task = """\nDo it.\nWell."""'),
        )
    )
    assert (rules.stages.pause, rules.stages.end_when_all_finished) == ("absorb", True)
    assert (rules.jobs.queued, rules.jobs.environment) == (9, "/opt/env/bin")
    assert rules.jobs.memory_per_gpu == 64 * 10**9
    assert rules.entrants[0] == EntrantRule(name="Careful", lab="House", model="played")
    assert rules.exam == Exam(program="exam.py", questions=1_000, args=("", "--tier"))
    assert rules.prepare == (Prepare(creates="base", run=("make", "base")),)
    assert (rules.zone, rules.task) == ("UTC", "Do it.\nWell.")
    assert rules.stages.closing == 60 * MINUTE


# The table of keys and the structs


STRUCTS: dict[str, tuple[type[msgspec.Struct], set[str], set[str]]] = {
    # struct, keys that aren't its fields, fields that aren't keys
    "": (Competition, {"palestra"}, {table.name for table in keys.TABLES if table.name}),
    "stages": (Stages, {"end"}, set()),
    "allowance": (Allowance, set(), set()),
    "base": (Base, set(), set()),
    "prepare": (Prepare, set(), set()),
    "data": (Data, set(), set()),
    "nodes": (Node, set(), set()),
    "jobs": (JobRules, set(), set()),
    "upstreams": (Upstream, set(), set()),
    "models": (Model, set(Price.__struct_fields__), {"price"}),
    "entrants": (EntrantRule, set(), set()),
    "serving": (Serving, set(), set()),
    "exam": (Exam, set(), set()),
}


@pytest.mark.parametrize("table", keys.TABLES, ids=lambda table: table.name or "top")
def test_every_rule_has_its_key_and_every_default_is_the_one_that_is_shown(table: keys.Table) -> None:
    struct, extra, inner = STRUCTS[table.name]
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert {key.name for key in table.keys} - extra == fields.keys() - inner
    for key in table.keys:
        default = fields[key.name].default if key.name in fields else msgspec.NODEFAULT
        if default is msgspec.NODEFAULT:
            assert not key.default or key.default == '"UTC"' or "`" in key.default or " " in key.default
        elif default in ("", ()):
            assert key.default in (keys.NONE, "this server's own")
        elif key.name not in ("task", "output_floor"):
            assert key.default == msgspec.json.encode(default).decode()


@given(st.data())
def test_no_damage_to_a_line_does_more_than_be_a_fault(whole: Whole, data: st.DataObject) -> None:
    """Cut, doubled or altered lines: rules or faults with a line in the file, never another error."""
    lines = whole.text.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    piece = data.draw(
        st.sampled_from(
            ["", "x", '"', "=", "[", "{}", "[[nodes]]", lines[data.draw(st.integers(0, len(lines) - 1))]]
        )
    )
    cut = data.draw(st.integers(0, len(lines[at])))
    lines[at] = lines[at][:cut] + piece + data.draw(st.sampled_from(["", lines[at][cut:], "\n" + lines[at]]))
    text = "\n".join(lines)
    try:
        whole.read(text)
    except BadCompetition as bad:
        assert bad.faults
        for fault in bad.faults:
            assert 1 <= fault.line <= text.count("\n") + 1
            assert "\n" not in str(fault)

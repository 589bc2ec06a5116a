"""Whether the parts of a rules file agree, its times above all: S02, F53, and what names what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.rules.conftest import Whole


def test_s02_an_end_that_is_not_start_plus_running_is_refused_and_both_are_named(whole: Whole) -> None:
    """17:04 to 17:00 six days later is 143:56, not 144 hours."""
    fault = whole.only_fault(('running = "144h"', 'running = "144h"\nend = 2026-12-07T17:00:00+02:00'))
    assert fault == (
        "competition.toml:9: stages.end = 2026-12-07T17:00:00+02:00: start and end are 143:56 h apart, "
        "but running says 144:00 h, which ends 2026-12-07 15:04:00Z; leave one of them out"
    )


@pytest.mark.parametrize(
    "end", ["2026-12-07T17:04:00+02:00", "2026-12-07T15:04:00Z", "2026-12-07 07:04:00-08:00"]
)
def test_s02_an_end_alone_or_one_that_agrees_is_the_same_length(whole: Whole, end: str) -> None:
    for both in (f'running = "144h"\nend = {end}', f"end = {end}"):
        assert whole.read(whole.changed(('running = "144h"', both))) == whole.read()


def test_s02_one_microsecond_is_a_difference(whole: Whole) -> None:
    end = ('running = "144h"', 'running = "144h"\nend = 2026-12-07T17:04:00.000001+02:00')
    assert "144:00:00.000001 h apart, but running says 144:00 h" in whole.only_fault(end)


@pytest.mark.parametrize("end", ["2026-12-01T17:04:00+02:00", "2026-11-30T00:00:00Z", "2028-01-01T00:00:00Z"])
def test_s02_an_end_must_come_after_the_start(whole: Whole, end: str) -> None:
    assert "within 366 days after start, 2026-12-01 15:04:00Z" in whole.only_fault(
        ('running = "144h"', f"end = {end}")
    )


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        ("2026-12-01T17:00:00", "add the offset from UTC, for example 2026-12-01T17:00:00Z"),
        ("2026-12-01", "a date and a time with its offset"),
        ("17:00:00", "a date and a time with its offset"),
        ('"2026-12-01T17:00:00Z"', "without quotes"),
        ('"at run"', 'or "at-run"'),
        ("1796137440", "an instant with its offset"),
    ],
)
def test_f53_a_start_without_its_offset_is_refused(whole: Whole, start: str, hint: str) -> None:
    fault = whole.only_fault(("2026-12-01T17:04:00+02:00", start))
    assert fault.startswith("competition.toml:7: stages.start = ")
    assert hint in fault


def test_f53_a_start_at_run_is_allowed_but_then_no_end_is_known(whole: Whole) -> None:
    at_run = ("2026-12-01T17:04:00+02:00", '"at-run"')
    assert whole.read(whole.changed(at_run)).stages.start is None
    assert "write running, a length" in whole.only_fault(
        at_run, ('running = "144h"', "end = 2026-12-07T17:00:00Z")
    )


def test_a_stage_without_any_length_is_refused_at_its_table(whole: Whole) -> None:
    assert whole.only_fault(('running = "144h"\n', "")).startswith(
        "competition.toml:6: stages.running: missing; how long"
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ([('name = "small"', 'name = "big"')], '30: nodes[1].name = "big": taken already, in line 24'),
        ([('name = "Own"', 'name = "careful"')], 'entrants[1].name = "careful": taken already, in line 64'),
        ([('"Grey Heron"', '"Careful"')], 'entrants[1].alias = "Careful": taken already, in line 64'),
        ([('upstream = "lab"', 'upstream = "lob"')], 'models[0].upstream = "lob": unknown; did you mean lab?'),
        ([('upstream = "lab"', 'upstream = "x"')], "unknown; the [[upstreams]] are: lab, scripted"),
        ([('\nmodel = "played"', "")], "entrants[0].model: missing; the house harness needs one of the [[models]]"),
        ([('\nmodel = "played"', '\nmodel = "played"\ncommand = ["x"]')], 'command = ["x"]: only for harness = "command"'),
        ([('\ncommand = ["python", "agent.py"]', "")], "entrants[1].command: missing; the program to run"),
        ([("gpus_per_job = 8", "gpus_per_job = 9"), ("gpus_running = 8", "gpus_running = 9")],
         "jobs.gpus_per_job = 9: at most 8, as node big has"),
        ([("gpus_running = 8", "gpus_running = 4")], "gpus_running = 4: at least gpus_per_job, 8"),
        ([('longest = "12h"', 'longest = "12h"\nmemory_per_gpu = "600GB"')],
         'memory_per_gpu = "600GB": at most 513 GiB, as node big has'),
        ([('memory = "64GiB"\ngpus = 1', 'memory = "64GiB"\ngpus = 9')], "no node has this and 9 GPUs"),
        ([('memory = "64GiB"\ngpus = 1', 'memory = "1TiB"\ngpus = 1')], "the most of a node is 513 GiB"),
        ([('playbooks = "playbooks"\n', "")], "44: upstreams[1]: write one of url and playbooks"),
        ([('playbooks = "playbooks"', 'playbooks = "p"\nurl = "http://x/v1"')], 'playbooks = "p": write one of'),
        ([('key_env = "LAB_KEY"', 'key_env = "LAB_KEY"\nkey_file = "k"')], "write one of key_env and key_file"),
        ([('playbooks = "playbooks"', 'playbooks = "p"\nkey_env = "K"')], "playbooks need no key"),
        ([('"careful"', '"../careful"')], "models[1].upstream_model"),
        ([('"careful"', '"a/b"')], 'upstream_model = "a/b": with playbooks this names a file'),
        ([("output_ceiling = 100", "output_ceiling = 100\noutput_floor = 101")], "output_floor = 101: at most output_ceiling"),
        ([('"--adapter", "{model}"', '"--adapter", "{adapter}"')], 'serving.adapter[3] = "{adapter}": {adapter} isn\'t filled in'),
        ([('"{model}", "{socket}",\n', '"{model}",\n')], "serving.full"),
        ([('"serve", "--base", "{base}"', '"serve", "--base", "{model}"')], "74: serving.base[2]"),
    ],
)  # fmt: skip
def test_parts_that_do_not_agree_are_faults(whole: Whole, changes: list[tuple[str, str]], fault: str) -> None:
    found = whole.faults(whole.changed(*changes))
    assert any(fault in line for line in found), found


def test_the_line_of_a_word_in_a_list_is_its_own(whole: Whole) -> None:
    found = whole.faults(
        whole.changed(
            ('    "serve",\n    "{model}", "{socket}",', '    "serve",\n    "{modle}", "{socket}",')
        )
    )
    assert found[1].startswith(
        'competition.toml:78: serving.full[1] = "{modle}": {modle} isn\'t filled in here'
    )


def test_at_most_26_entrants_since_corners_are_letters(whole: Whole) -> None:
    more = "".join(f'\n[[entrants]]\nname = "E{n}"\nmodel = "played"\n' for n in range(3, 28))
    found = whole.faults(whole.text + more)
    assert [line.partition(": ")[2] for line in found] == [
        "entrants[26]: there can be at most 26 [[entrants]]"
    ]
    assert len(whole.read(whole.text + more.rpartition("\n[[entrants]]")[0]).entrants) == 26

"""Charts tell the truth: drawn width over value is the same for every bar, and marks stand where their instants are."""

from __future__ import annotations

import pytest
from tests.building import START
from tests.report.looking import Element, look
from tests.report.reading import EVERY, facts_of

from palestra.report.charts import CHARTS, find_chart
from palestra.report.columns import dollars, gpu_time
from palestra.report.drawing import Axis, axis, part, ticks
from palestra.report.evidence import Evidence, runs
from palestra.report.facts import Facts
from palestra.report.window import Asked
from palestra.rules.units import DOLLAR, HOUR, SECOND

CASES = [(name, Asked()) for name in EVERY] + [
    ("pocket", Asked(until="T+0:01:10")), ("troubled", Asked(until="T+1:10:00")), ("joined", Asked(until="T+1:02:00")),
    ("pocket", Asked(since="T+0:01:00", until="T+0:02:00")),
]  # fmt: skip


def drawn(name: str, facts: Facts) -> Element:
    return look(str(find_chart(name)(facts, Evidence(facts)).body))


def lists_of_bars(chart: Element) -> list[Element]:
    return [one for one in chart.all("ul") if one.all(style="bar") and "leg" not in one.classes]


@pytest.mark.parametrize(("name", "asked"), CASES)
@pytest.mark.parametrize("chart", ["budgets", "ends", "waits"])
def test_bars_are_honest(name: str, asked: Asked, chart: str) -> None:
    """Width over value is one number in a list, to a tenth of a per cent or a hundredth of a per cent of the track."""
    facts = facts_of(name, asked)
    for bars in lists_of_bars(drawn(chart, facts)):
        pairs = [(bar.measure("width"), int(bar.attributes["data-v"])) for bar in bars.all(style="bar")]
        width, value = max(pairs)
        if value == 0:
            continue
        for drawn_width, worth in pairs:
            meant = worth * width / value
            assert abs(drawn_width - meant) <= max(0.001 * meant, 0.0002), (chart, drawn_width, meant)
        assert all(0 <= drawn_width <= 100.0001 for drawn_width, _ in pairs)


@pytest.mark.parametrize(("name", "asked"), CASES)
def test_bars_are_the_figures_of_the_record(name: str, asked: Asked) -> None:
    """Each corner's bars are what its ledger, its jobs and its waits say, and every one there is has its bar."""
    facts = facts_of(name, asked)
    api, gpu = ([int(bar.attributes["data-v"]) for bar in bars.all(style="bar")] for bars in _two(facts))
    assert sorted(api) == sorted(seat.api.spent for seat in facts.corners if seat.api)
    assert sorted(gpu) == sorted(seat.gpu.spent for seat in facts.corners if seat.gpu)
    jobs = sum(len(facts.jobs_of(seat.corner)) for seat in facts.corners)
    ends = [int(bar.attributes["data-v"]) for bar in drawn("ends", facts).all(style="bar")]
    assert sum(ends) == jobs
    waited = [job.waited for seat in facts.corners for job in facts.jobs_of(seat.corner) if job.waited]
    waits = drawn("waits", facts)
    assert len(waits.all("li")) - len(waits.all(style="leg")[0].all("li")) == min(8, len(waited))


def _two(facts: Facts) -> tuple[Element, Element]:
    first, second = drawn("budgets", facts).all("ul")
    return first, second


@pytest.mark.parametrize(("name", "asked"), CASES)
def test_marks_stand_at_the_request_and_copies_reach_to_where_they_were_kept(name: str, asked: Asked) -> None:
    """S04: one mark a nomination of the window, at its request; S86: none that was requested outside."""
    facts = facts_of(name, asked)
    line = axis(facts)
    rows = drawn("nominations", facts).all("ol")[0].all("li")
    for seat, row in zip(facts.corners, rows, strict=True):
        mine = facts.nominations_of(seat.corner)
        marks = row.all("a", "dot")
        assert len(marks) == len(mine)
        for one, mark in zip(mine, marks, strict=True):
            meant = 100 * (one.requested.at - line.since) / (line.until - line.since)
            assert mark.measure("left") == pytest.approx(meant, abs=1e-3)
            assert ("cur" in mark.classes) == one.current
            assert facts.t(one.requested.at) in mark.attributes["aria-label"]
        for one, copy in zip(mine, row.all(style="copy"), strict=True):
            if one.copied:
                meant = 100 * (one.copied.at - one.requested.at) / (line.until - line.since)
                assert copy.measure("width") == pytest.approx(meant, abs=1e-3)


def test_every_chart_s_title_states_something() -> None:
    facts = facts_of("pocket")
    titles = {name: find_chart(name)(facts, Evidence(facts)).title for name in CHARTS}
    assert titles == {
        "nominations": "Four of four agents have a model up; Careful sent the first one",
        "budgets": "Careful used most of its slot-time: 14.3\u00a0%",
        "ends": "Seven of nine jobs completed; one ran out of memory",
        "waits": "The longest wait was 24 s, for slots",
    }
    mid = facts_of("troubled", Asked(until="T+0:40:00"))
    assert find_chart("budgets")(mid, Evidence(mid)).title == "Nobody is ahead of the even pace"
    assert find_chart("nominations")(mid, Evidence(mid)).title == "No nominations in this window"


def test_an_own_pace_has_its_own_tick() -> None:
    """S53: Heron's stands at a minute of 115, the others' at 66 of 180."""
    facts = facts_of("joined", Asked(until="T+1:06:00"))
    rows = [row for row in _two(facts)[0].all("li") if "absent" not in row.classes]
    ticks_at = {row.all(style="cn")[0].text: row.all(style="tick")[0].measure("left") for row in rows}
    assert ticks_at["A"] == ticks_at["B"] == 100
    assert ticks_at["C"] == pytest.approx(100 * (1 / 115) / (66 / 180), abs=1e-3)


def test_who_hadn_t_started_has_a_row_without_a_bar_or_a_nought() -> None:
    facts = facts_of("joined", Asked(until="T+1:02:00"))
    for name in ("budgets", "ends"):
        rows = [
            row
            for row in drawn(name, facts).all("li")
            if row.all(style="cn") and row.all(style="cn")[0].text == "C"
        ]
        assert all(not row.all(style="bar") and "0" not in row.text for row in rows), name
        assert all("not started" in row.text for row in rows), name


def test_positions_are_exact() -> None:
    assert part(1, 3) == "33.3333%"
    assert part(0, 0) == "0.0000%"
    line = Axis(START, START + 4 * HOUR)
    assert (line.x(START + HOUR), line.width(START + HOUR, START + 3 * HOUR)) == ("25.0000%", "50.0000%")
    assert line.x(START - HOUR) == "0.0000%"
    facts = facts_of("complete")
    labels = [label for _, label in ticks(facts, axis(facts))]
    assert labels == ["0:00", "0:15", "0:30", "0:45", "1:00", "1:15", "1:30", "1:45", "2:00"]


def test_figures_of_a_column_have_one_unit_and_stay_apart() -> None:
    """S09: what differs prints differently; S10: with the same decimals for all."""
    column = dollars([15 * DOLLAR // 1_000, 18 * DOLLAR // 1_000, 0])
    assert [column.show(one) for one in (15 * DOLLAR // 1_000, 18 * DOLLAR // 1_000)] == ["$0.015", "$0.018"]
    assert gpu_time([90 * SECOND], [600 * SECOND], "slot").show(90 * SECOND) == "90.0 slot-s"
    assert gpu_time([HOUR, 2 * HOUR], [8 * HOUR], "GPU").show(HOUR) == "1.0 GPU-h"
    assert dollars([123_456_789]).exact(123_456_789) == "$0.123456789"


def test_rows_are_told_as_runs() -> None:
    assert runs((1, 2, 3, 7, 9, 10)) == "1 to 3, 7, 9 to 10"
    assert "… 76 more …" in runs(tuple(range(1, 201, 2)))

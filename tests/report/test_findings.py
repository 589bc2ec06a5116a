"""Findings: which come first, how sentences are filled, and what each detector sees in journals and seasons of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import FULL, GB, START, Rehearsal, competition, digest, spec
from tests.report.reading import EVERY, UTC, facts_of

from palestra.events.nominations import AnswerSettings
from palestra.referee.observations import CopyBroke
from palestra.referee.requests import Finish, Nominate, SubmitJob
from palestra.report.detectors import DETECTORS, detect, find_detector
from palestra.report.facts import Facts
from palestra.report.findings import Figure, Finding, choose, escape, rank
from palestra.report.gather import gather
from palestra.report.summary import summary
from palestra.report.window import Asked
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Bytes, Moment


def facts(run: Rehearsal, until: str = "") -> Facts:
    return gather(run.rows, Asked(until=until), UTC)


def kinds(found: tuple[Finding, ...] | list[Finding]) -> list[str]:
    return [one.id for one in found]


def finding(
    kind: str, corner: str, severity: int = 3, consequence: int = 2, *, positive: bool = False, row: int = 9
) -> Finding:
    figure = Figure("n", "count", 1, "one", (row,))
    return Finding(
        kind=kind, version=1, about=corner, corners=(corner,), severity=severity, consequence=consequence,
        positive=positive, big="n", title="t", head="h {n}.", said="s {n}.", figures=(figure,),
    )  # fmt: skip


def test_the_most_severe_and_the_rarest_come_first() -> None:
    """What happens to every corner is no news: a wait of one corner stands before a worse thing that all have."""
    common = [finding("common", corner, severity=4) for corner in "ABCD"]
    rare = finding("rare", "B", severity=2)
    assert kinds(rank([*common, rare], 4))[0] == "rare:B"
    assert kinds(rank([finding("x", "A", 3, row=9), finding("y", "B", 3, row=4)], 2)) == ["y:B", "x:A"]


def test_at_most_two_of_a_corner_and_not_two_of_a_kind() -> None:
    found = [finding(kind, "A") for kind in "wxyz"] + [finding("w", "B")]
    chosen = choose(rank(found, 2))
    assert sum("A" in one.corners for one in chosen) == 2
    twice = (finding("w", "A", row=1), finding("w", "A", row=2))
    assert len(choose(twice)) == 1


def test_a_good_one_is_among_them_if_there_is_any() -> None:
    bad = [finding(kind, corner, 5, 4) for corner, kind in zip("ABCDEFGH", "stuvwxyz", strict=True)]
    good = finding("good", "A", 1, 1, positive=True)
    assert "good:A" in kinds(choose(rank([*bad, good], 8)))
    assert len(choose(rank([*bad, good], 8))) == 6
    crowded = (finding("x", "A", 5, 4), finding("y", "A", 5, 4), good)
    assert kinds(choose(crowded)) == ["x:A", "good:A"]


@given(st.lists(st.tuples(st.sampled_from("wxyz"), st.sampled_from("ABCD"), st.integers(1, 5)), unique=True))
def test_the_order_doesn_t_depend_on_the_order_of_detectors(given_: list[tuple[str, str, int]]) -> None:
    found = [finding(kind, corner, severity, row=row) for row, (kind, corner, severity) in enumerate(given_)]
    assert rank(found, 4) == rank(reversed(found), 4)


def test_names_with_braces_open_no_figure() -> None:
    one = finding("x", "A")
    hostile = "{n} {brace} {{n}} }"
    assert one.text(f"{escape(hostile)} has {{n}}") == f"{hostile} has one"


@pytest.mark.parametrize("name", EVERY)
def test_every_sentence_is_whole_and_every_figure_has_its_rows(name: str) -> None:
    """Each placeholder has its figure, each figure its rows, and those are rows of the record."""
    found = facts_of(name)
    for one in detect(found):
        for template in (one.title, one.head, one.said):
            text = one.text(template)
            assert "{" not in text and "None" not in text and "  " not in text, text
        assert one.text(one.head).endswith(".")
        assert one.text(one.said).endswith((".", "”."))
        for figure in one.figures:
            assert figure.rows, (one.id, figure.name)
            assert min(figure.rows) >= 1 and max(figure.rows) <= found.row
        assert one.figure(one.big).shown
        assert set(one.corners) <= {seat.corner for seat in found.corners}
    ids = kinds(detect(found))
    assert len(ids) == len(set(ids))


def test_each_detector_sees_something_in_the_pocket_arena_or_a_window_of_it() -> None:
    """A competition of four minutes gives findings too: thresholds go with its length."""
    seen = {
        one.kind for asked in (Asked(), Asked(until="T+0:01:10")) for one in detect(facts_of("pocket", asked))
    }
    assert set(DETECTORS) - seen == {"ahead_of_pace"}


def test_golden_journals_give_the_findings_they_always_gave() -> None:
    assert kinds(choose(detect(facts_of("complete")))) == [
        "result:A", "unchanged_copy:B", "recovered:B", "first_nomination:A-n1",
    ]  # fmt: skip
    assert kinds(choose(detect(facts_of("troubled"))))[:2] == ["result:A", "first_nomination:A-n1"]
    assert kinds(choose(detect(facts_of("joined")))) == [
        "result:C", "first_nomination:B-n1", "first_nomination:C-n1",
    ]  # fmt: skip


def test_the_result_says_what_is_not_settled() -> None:
    one = next(one for one in detect(facts_of("complete")) if one.kind == "result")
    assert one.text(one.head) == "Owl comes first with 61.2\u00a0%, 34.1 points above the base model."
    assert one.text(one.said) == (
        "Owl has 612 of 1,000 right. The base model they all started from has 27.1\u00a0%. The 95\u00a0% interval of Agent Two "
        "overlaps with it, so that order is not settled."
    )
    early = Asked(until="T+1:59:00")
    assert "result:A" not in kinds(detect(facts_of("complete", early)))


def test_s07_a_first_nomination_is_told_with_its_label_and_never_without() -> None:
    """A three-step test model nominated as a backup is first `labelled “backup”`, not somebody's first model."""
    run = Rehearsal(competition())
    run.at = Moment(START + 3 * MINUTE)
    ask = Nominate("A", None, digest("w"), "out", Bytes(GB), AnswerSettings(), "backup", "broken, I think", 3)
    run.accept(run.grant(ask), FULL)
    (one,) = find_detector("first_nomination")(facts(run))
    assert one.text(one.head) == "Agent One is first with a full model, labelled “backup”, at T+0:03."
    assert "labelled “backup”, of training step 3, at T+0:03." in one.text(one.said)


def test_a_rejected_nomination_is_nobody_s_first() -> None:
    run = Rehearsal(competition())
    run.tell(CopyBroke(f"{run.nominate('A', 'same')}.c1", "unchanged_copy", "all equal"))
    run.at = Moment(START + MINUTE)
    run.accept(run.nominate("B", "w"))
    (one,) = find_detector("first_nomination")(facts(run))
    assert (one.corners, one.about) == (("B",), "B-n1")


def spender(hours: int, dollars: int) -> Rehearsal:
    """144 hours; agent one has spent so many dollars of 300 by so many hours."""
    run = Rehearsal(competition(running=144 * HOUR, api_credit=300 * DOLLAR, longest=4 * HOUR))
    left = dollars * DOLLAR
    while left:
        bound = min(left, 10 * DOLLAR) // 1_250
        run.answer(run.reserve(bound=bound, cap=None), Usage(cache_write=bound))
        left -= bound * 1_250
    run.until(START + hours * HOUR)
    run.refuse(SubmitJob("B", None, spec(gpus=9)))
    return run


def test_s08_a_budget_ahead_of_pace_is_told_with_its_forecast() -> None:
    """$90 of 300 at 24 h of 144: 30 % in 16.7 %, out at T+80:00, 64 h early; the method is in the sentence."""
    (one,) = find_detector("ahead_of_pace")(facts(spender(24, 90)))
    assert one.text(one.head) == "Agent One uses its API credit 1.8 times as fast as the clock."
    assert one.text(one.said) == (
        "Agent One has used $90.00 of $300.00 when 16.7\u00a0% of its time is gone. At its average rate since its start the rest "
        "lasts until T+80:00, 2 d 16 h before the end."
    )
    assert one.figure("out").amount == START + 80 * HOUR
    assert (one.figure("used").amount, one.figure("used").whole) == (90 * DOLLAR, 300 * DOLLAR)


def test_s46_who_is_done_is_warned_of_nothing() -> None:
    run = spender(24, 90)
    run.grant(Finish("A", None, "done"))
    assert find_detector("ahead_of_pace")(facts(run)) == []


def test_a_little_ahead_or_very_early_is_no_finding() -> None:
    assert find_detector("ahead_of_pace")(facts(spender(24, 51))) == []
    assert find_detector("ahead_of_pace")(facts(spender(2, 30))) == []


def test_thresholds_go_with_the_length_and_are_said() -> None:
    """A wait of 70 min is long in six hours, and none in six days."""
    for hours, many in ((6, 1), (144, 0)):
        run = Rehearsal(competition(running=hours * HOUR, gpu_time=800 * HOUR))
        run.submit("B", gpus=8, limit=2 * HOUR)
        waits = run.submit("A", gpus=2)
        run.at = Moment(START + 70 * MINUTE)
        run.exit("B-j1", ran=70 * MINUTE)
        found = find_detector("long_wait")(facts(run))
        assert len(found) == many, hours
        assert all(one.about == waits for one in found)
        assert all(one.figure("long").shown == "9 min" for one in found)
        assert all("for slots, held by B-j1" in one.text(one.said) for one in found)


def test_in_a_long_competition_three_misread_limits_make_a_finding() -> None:
    run = Rehearsal(competition(running=144 * HOUR))
    for number in range(3):
        assert find_detector("time_limit")(facts(run)) == [], number
        job = run.submit("A", limit=2 * MINUTE)
        run.at = Moment(run.at + 2 * MINUTE)
        run.exit(job, 143, ran=2 * MINUTE, over_time=True)
    (one,) = find_detector("time_limit")(facts(run))
    assert one.text(one.said) == "Of Agent One, three jobs were ended by their own limits."
    assert len(one.figure("times").rows) == 3


def test_a_copy_not_yet_kept_is_told_and_one_that_has_just_begun_isn_t() -> None:
    run = Rehearsal(competition(running=6 * HOUR))
    run.nominate("A", "w")
    run.until(START + MINUTE)
    assert find_detector("copy_time")(facts(run)) == []
    run.wait(20 * MINUTE)
    run.refuse(SubmitJob("B", None, spec(gpus=9)))
    (one,) = find_detector("copy_time")(facts(run))
    assert one.text(one.head) == "Agent One has nominated, and 21 min later the copy isn’t there."


def test_back_on_its_feet_is_a_first_model_after_trouble_or_one_after_a_rejection() -> None:
    """Not each model after a failed job: who has one up already didn't fall."""
    run = Rehearsal(competition())
    for _ in range(2):
        run.exit(run.submit(), 1)
    run.at = Moment(run.at + MINUTE)
    run.accept(run.nominate("A", "w1"))
    (first,) = find_detector("recovered")(facts(run))
    assert first.text(first.said).startswith(
        "After two jobs that ended badly, Agent One nominated A-n1 at T+0:01,"
    )
    for _ in range(3):
        run.exit(run.submit(), 1)
    run.at = Moment(run.at + MINUTE)
    run.accept(run.nominate("A", "w2"))
    assert find_detector("recovered")(facts(run)) == [first]
    later = gather(run.rows, Asked(since="T+0:02"), UTC)
    assert find_detector("recovered")(later) == []


def test_the_summary_is_readable_in_a_terminal() -> None:
    text = summary(facts_of("pocket"))
    head, *lines = text.splitlines()
    assert head == "Rehearsal: the whole run, as of T+0:09:00, row 166"
    assert len(lines) == 6
    assert all(line.startswith("- ") and "(rows " in line for line in lines)
    quiet = summary(facts_of("complete", Asked(until="T+0:00:05")))
    assert quiet.endswith("No detector saw anything to tell of.")


def test_a_wait_counts_without_the_pauses_in_it() -> None:
    """B's job in the troubled journal waited out a pause of 30 min, which isn't anybody's doing."""
    assert find_detector("long_wait")(facts_of("troubled")) == []

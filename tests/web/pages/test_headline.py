"""The first sentence of a page is the top thing going on; pace, names and corners of those who come late."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.building import GB, START, Rehearsal, competition
from tests.web.pages.scene import Scene
from tests.world import settle

from palestra.referee.requests import AddEntrant, Pause
from palestra.rules.competition import Node
from palestra.rules.units import HOUR, MINUTE, Bytes, Moment
from palestra.runtime.seats import NAMES
from palestra.state.catalog import View
from palestra.web.pages.figures import meters, scale_of, share_gone
from palestra.web.pages.headline import headline
from palestra.web.pages.masthead import masthead
from palestra.web.pages.overview import overview
from palestra.web.pages.source import FolderRun, Source

NODES = (Node("n1", 8, Bytes(100 * GB), "H100"),)


def say(run: Rehearsal) -> str:
    return headline(View(run.state, run.book.catalog, run.at)).head


def test_before_the_start() -> None:
    """S58: nothing is divided by time that hasn't begun."""
    run = Rehearsal(at=START - 10 * MINUTE)
    assert say(run) == "Two agents in their corners. It starts in 10 min."
    assert share_gone(run.state, run.book.catalog, "A", run.at) is None


def test_stages_follow_each_other() -> None:
    run = Rehearsal()
    run.wait(0)
    assert say(run) == "Two agents are at work, and no job runs."
    run.submit("A")
    assert say(run) == "One job runs, two agents at work."
    run.grant(Pause("organiser:one", "p1", "lunch"))
    assert say(run) == "The competition is paused. Nothing starts until it goes on."


def test_stranded_gpus_come_before_a_long_wait() -> None:
    run = Rehearsal(competition(nodes=NODES, gpu_time=100 * HOUR))
    run.wait(0)
    run.submit("A", gpus=2, memory=90 * GB, limit=4 * HOUR)
    run.submit("B", gpus=1, memory=20 * GB, limit=HOUR)
    run.wait(40 * MINUTE)
    assert say(run) == "Six GPUs stand free. No waiting job fits the memory beside them."
    run.submit("A", gpus=6, memory=GB, limit=HOUR)
    assert say(run) == "Agent Two has waited 40 min for GPUs."


def test_closing_and_judging() -> None:
    run = Rehearsal()
    run.wait(0)
    run.nominate("A")
    run.wait(6 * HOUR)
    assert run.stage() == "closing" and say(run) == "Time is up. One nomination is still copied and checked."
    settle(run)
    assert run.stage() == "judging" and say(run) == "Everything has stopped. The models are being examined."


def test_results_name_the_winner_and_what_is_not_settled() -> None:
    run = Scene("results").run
    said = headline(View(run.state, run.book.catalog, run.at))
    assert said.head == "Careful comes first with 74.2 %."
    assert said.stand.endswith(
        "The interval of Owl overlaps with the winner’s: the order between them is not settled."
    )


def test_a_late_joiner_has_its_own_pace_and_the_same_end() -> None:
    """S53: the same budget, its own start."""
    run = Rehearsal()
    run.wait(0)
    run.grant(AddEntrant("organiser:one", "e1", "Late", "", "house", "small", Moment(START + 3 * HOUR)))
    run.until(START + 3 * HOUR)
    run.wait(90 * MINUTE)
    state, cards = run.state, run.book.catalog
    assert share_gone(state, cards, "A", run.at) == 0.75
    assert share_gone(state, cards, "C", run.at) == 0.5
    api, _ = meters(state, cards, "C", run.at)
    assert (api.pace, api.limit) == (50.0, "$10.00")


@pytest.mark.parametrize(
    ("gpu_time", "heading", "shown"),
    [
        (1_000 * HOUR, "GPU-hours", "1.5"),
        (40 * HOUR, "GPU-hours", "1.50"),
        (10 * MINUTE, "GPU-minutes", "90.00"),
    ],
)
def test_gpu_time_is_written_in_one_unit(gpu_time: int, heading: str, shown: str) -> None:
    scale = scale_of(Rehearsal(competition(gpu_time=gpu_time, nodes=NODES)).state)
    assert (scale.heading, scale.time(90 * MINUTE)) == (heading, shown)


def test_the_name_of_a_late_joiner_under_an_alias_is_sealed(tmp_path: Path) -> None:
    """S57: its true name lies in secrets and nowhere else."""
    scene = Scene("started")
    run = scene.run
    ask = AddEntrant(
        "organiser:one", "e1", "Heron", "", "house", "small", Moment(run.at + MINUTE), sealed_name="5ea1ed"
    )
    run.grant(ask)
    folder = scene.write(tmp_path / "run")
    folder.write_secret(NAMES, msgspec.json.encode({"Heron": ["Quiet Giant 7", "Far Shore"]}))
    source: Source = FolderRun(folder, run.at)
    assert ("Joins soon", "Heron takes corner E at T+0:01:00") in [
        (name, str(said)) for name, said in overview(source, []).rules
    ]
    assert {"Quiet Giant 7", "Far Shore"} <= {
        secret.value for secret in source.secrets() if secret.shown == "Heron"
    }
    scene = Scene("started")
    scene.run.grant(ask)
    scene.later(70)
    folder = scene.write(tmp_path / "later")
    folder.write_secret(NAMES, msgspec.json.encode({"Heron": ["Quiet Giant 7", "Far Shore"]}))
    names = masthead(FolderRun(folder)).names
    assert [(one.corner, str(one.name), one.alias) for one in names][3:] == [
        ("D", "Owl", True),
        ("E", "Heron", True),
    ]


def test_a_strip_has_a_few_stretches_whatever_the_length(tmp_path: Path) -> None:
    for number, length in enumerate(
        (MINUTE, 5 * MINUTE, 47 * MINUTE, 6 * HOUR, 48 * HOUR, 144 * HOUR, 1_000 * HOUR)
    ):
        run = Rehearsal(competition(running=length))
        run.wait(0)
        scene = Scene("started")
        scene.run = run
        parts = masthead(FolderRun(scene.write(tmp_path / str(number)))).parts
        assert 3 <= len(parts) <= 12, length
        assert abs(sum(part.size for part in parts) - 100) < 1

"""The opening of a run, killed at any instant or begun twice at once: it is opened once, whole, or not at all."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.e2e.arena import BARE, Arena, lay_out_bare, palestra

from palestra.runtime.opening import ASIDE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = 12
TWINS = 4


def test_an_opening_killed_at_any_instant_is_begun_anew(tmp_path: Path) -> None:
    """Nothing was acknowledged before `run.toml` was there, so what is left is put aside; after it, the run goes on."""
    competition, chance = lay_out_bare(BARE, tmp_path / "bare"), Random(7)
    (competition / "held" / "agent").touch()
    with Arena(competition, tmp_path / "runs") as arena:
        opened: list[str] = []
        for _ in range(KILLS):
            server = arena.serve()
            path = arena.folder.path / chance.choice(
                ("lock", "journal.db", "record.db-wal", "secrets", "run.toml")
            )
            arena.until(server, path.exists, what=str(path))
            server.process.kill()
            server.process.wait()
            if arena.folder.exists:
                opened.append(arena.folder.read().run)
        server = arena.serve("--until-end")
        arena.until_row(server, "SessionStarted")
        (competition / "held" / "agent").unlink()
        assert server.leave(300) == 0, server.said()
        assert len({*opened, arena.folder.read().run}) == 1
        assert "Traceback" not in server.said()
        kept = {path.name for path in arena.folder.path.iterdir() if path.name.startswith(ASIDE)}
        assert kept == {f"{ASIDE}{number}" for number in range(1, len(kept) + 1)}
        assert palestra("verify", arena.folder.path).returncode == 0


@pytest.mark.parametrize("number", range(TWINS))
def test_of_two_servers_that_open_one_run_at_once_one_serves_it(tmp_path: Path, number: int) -> None:
    """F03: the other one gets one sentence, and has changed nothing."""
    competition = lay_out_bare(BARE, tmp_path / "bare")
    (competition / "held" / "agent").touch()
    with Arena(competition, tmp_path / "runs") as arena:
        twins = [arena.serve("--until-end"), arena.serve("--until-end")]
        arena.until(None, lambda: any(twin.ended for twin in twins), what="the end of one of the two")
        refused, serving = sorted(twins, key=lambda twin: not twin.ended)
        assert refused.leave(1) == 1, refused.said()
        assert "Traceback" not in refused.said()
        arena.until_row(serving, "SessionStarted")
        (competition / "held" / "agent").unlink()
        assert serving.leave(300) == 0, serving.said()
        arena.until_row(None, "ServerStopped")
        counts = Counter(arena.journal.kinds())
        assert (counts["RunOpened"], counts["ServerStarted"], counts["SessionStarted"]) == (1, 1, 1)
        assert palestra("verify", arena.folder.path).returncode == 0

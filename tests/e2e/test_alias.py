"""S57: a real run with one entrant sealed from the start and one that joins sealed; its public bytes hold neither's name."""

import re
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.arena import BARE, Arena, lay_out_bare, palestra

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEALED = ("Quiet Thunder", "Hollow Hill Lab", "Late Lantern", "Far Shore Lab")
ALIASED = """
[[entrants]]
name = "Quiet Thunder"
lab = "Hollow Hill Lab"
alias = "Nightjar"
harness = "command"
command = ["sh", "data/held/who"]
"""
TELLS = "echo I am Quiet Thunder; arena finish --yes --note 'by Quiet Thunder of Hollow Hill Lab'"
PAGES = ("", "agents/A", "agents/B", "agents/C", "agents/C/steps", "tick.json")


def test_no_page_answer_report_or_file_name_holds_a_sealed_name(tmp_path: Path) -> None:
    competition = lay_out_bare(BARE, tmp_path / "bare")
    toml = competition / "competition.toml"
    toml.write_text(toml.read_text().replace("[[data]]", f"{ALIASED}\n[[data]]", 1))
    (competition / "held" / "who").write_text(TELLS)
    (competition / "held" / "agent").touch()
    with Arena(competition, tmp_path / "runs") as arena:
        server = arena.serve("--until-end")
        arena.until_row(server, "EntrantFinished")
        name, lab = SEALED[2:]
        who = ("--name", name, "--lab", lab, "--alias", "Heron", "--harness", "command")
        told = palestra(
            "entrant", "add", arena.folder.path, *who, "--command", "sh", "-c", "arena finish --yes"
        )
        assert told.stdout == "announced: corner C is Heron\n", told.stderr
        again = palestra("entrant", "add", arena.folder.path, "--name", "Other", "--alias", "Heron")
        assert (again.returncode, "stands for somebody already" in again.stderr) == (1, True)
        arena.until_row(server, "EntrantFinished", 2)
        page = re.search(r"live page: (\S+)", server.said())
        assert page is not None
        public = [urllib.request.urlopen(page[1] + path).read() for path in PAGES]
        status = palestra("status", arena.folder.path, "--json").stdout.encode()
        (competition / "held" / "agent").unlink()
        assert server.leave(300) == 0, server.said()
        assert palestra("verify", arena.folder.path).returncode == 0
        report = (arena.folder.reports / "whole-run.html").read_bytes()
        own_words = "EntrantFinished"  # what an agent says of itself stays as it said it, and is masked where it is shown
        rows = [row.body for row in arena.journal.rows if row.kind != own_words]
        public += [status, report, b"\n".join(rows)]
        public += [str(path).encode() for path in arena.folder.path.rglob("*")]
    for word in SEALED:
        assert not [data for data in public if word.lower().encode() in data.lower()], word

"""`palestra run COMPETITION`: opens a run, or goes on with one; one process, until it is stopped or the results are in."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import webbrowser
from pathlib import Path

from palestra.cli.check import objections
from palestra.cli.door import how_to_go_on
from palestra.cli.main import FATAL, OK, say
from palestra.cli.naming import as_called
from palestra.events.codec import Row, read_entry
from palestra.report.board_text import board_text
from palestra.report.scoreboard import scoreboard
from palestra.report.ticker import sentence
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import show_t
from palestra.runtime.compare import SCOREBOARD
from palestra.runtime.folder import RunFolder
from palestra.runtime.opening import Source, read_source
from palestra.runtime.preparing import prepare
from palestra.runtime.reports import write_report
from palestra.runtime.server import Server
from palestra.web.pages.serve import open_site
from palestra.web.pages.site import site_app
from palestra.web.wiring import open_doors, upstream_keys

SHORT = 3 * 3600 * 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument(
        "competition",
        type=Path,
        nargs="?",
        help="the competition's folder or TOML file; not needed to go on with a run",
    )
    parser.add_argument(
        "--run",
        dest="name",
        default="",
        help="the run's name below the runs folder (default: the competition's)",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs lie (default: runs)")
    parser.add_argument("--until-end", action="store_true", help="leave when the results are in")
    parser.add_argument("--quiet", action="store_true", help="don't print what happens")
    parser.add_argument(
        "--port", type=int, default=0, help="of the live page on this machine (default: any that is free)"
    )
    parser.add_argument("--no-open", action="store_true", help="don't open the live page in a browser")


def run(options: argparse.Namespace) -> int:
    """Prepare, then serve."""
    source = read_source(options.competition) if options.competition else None
    name = options.name or (source.rules.name if source else "")
    if not name:
        right = "give a competition to open a new run, or --run NAME to go on with one"
        raise BadInput("competition", "", right)
    if not _NAME.fullmatch(name):
        raise BadInput(
            "--run", name, "a run's name has letters, digits, '.', '_' and '-', and begins with no mark"
        )
    folder = RunFolder(options.runs / name)
    if not folder.exists:
        if source is None:
            right = f"there is no such run in {options.runs}; to open a new one, give its competition too"
            raise BadInput("--run", name, right)
        faults = objections(source, options.runs)
        if faults:
            raise Broken("this competition can't run yet:\n  " + "\n  ".join(faults), retry=False)
        prepare(source, _say)
    return asyncio.run(_serve(folder, source, options))


def _say(text: str) -> None:
    print(text, flush=True)


async def _serve(folder: RunFolder, source: Source | None, options: argparse.Namespace) -> int:
    server = Server(folder)
    if not options.quiet:
        show = _Ticker(server)
    await server.start(source, None if options.quiet else show)
    doors = await open_doors(server)
    try:
        site = await open_site(site_app(server, lambda: upstream_keys(server)), options.port)
    except Broken:
        await doors.close()
        await server.stop("leave-running")
        raise
    _announce(site.url, quiet=options.quiet, may_open=not options.no_open)
    _listen(server)
    server.begin()
    try:
        telling = asyncio.create_task(_tell_results(server, folder)) if not options.until_end else None
        try:
            how = await server.serve(until_end=options.until_end)
        finally:
            if telling is not None:
                telling.cancel()
            await site.close()
            await doors.close()
        await server.stop(how)
    except (Broken, OSError) as error:
        say(error)
        print(f"agents and jobs go on; go on with: {how_to_go_on(folder)}", file=sys.stderr)
        return FATAL
    view = server.desk.view()
    print(board_text(scoreboard(view.state, view.catalog)))
    if how == "end":
        print(f"report: {write_report(folder)}")
    else:
        print(f"stopped; go on with: {how_to_go_on(folder)}", file=sys.stderr)
    return OK


async def _tell_results(server: Server, folder: RunFolder) -> None:
    """A run that goes on being served after its end says so, once."""
    while not await server.desk.until(lambda: SCOREBOARD in server.desk.view().state.reports, 3600):
        pass
    view = server.desk.view()
    _say(board_text(scoreboard(view.state, view.catalog)))
    _say(
        f"the results are in; the live page stays up until Ctrl-C. Report: {as_called()} report {folder.path}"
    )


def _announce(url: str, *, quiet: bool, may_open: bool) -> None:
    """Say where the live page is, and show it where there is somebody to see it."""
    if not quiet:
        _say(f"live page: {url}")
    if may_open and sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        webbrowser.open(url)


def _listen(server: Server) -> None:
    """The first Ctrl-C or TERM stops in good order, a second one at once."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if server.stop_asked.done():
            sys.stderr.write(
                "palestra: leaving at once; agents and jobs go on, and the next run adopts them\n"
            )
            sys.stderr.flush()
            os._exit(130)
        sys.stderr.write("palestra: stopping; agents and jobs get up to 30 s (again to leave at once)\n")
        server.stop_asked.set_result("stop")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)


class _Ticker:
    """One line an event that people want to hear of, for as long as someone reads along."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __call__(self, rows: tuple[Row, ...]) -> None:
        try:
            for row in rows:
                text = sentence(read_entry(row))
                if text is not None:
                    print(f"{self._t(row.at)}  {text}", flush=True)
        except OSError:  # a closed pipe or a full disk behind it: no reason to end the run
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _t(self, at: int) -> str:
        state = self._server.desk.view().state
        return show_t(at, state.clock.start, seconds=state.rules.stages.running < SHORT)

"""Makes the world match the book: looks, compares, tells what it saw, and does what follows, again and again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from palestra.ports import Executor, Processes, Unreachable, Vault
from palestra.referee.observations import Observation, Tick, Trouble, TroubleOver
from palestra.referee.rulings import next_due
from palestra.rules.errors import Broken, PalestraError
from palestra.rules.units import SECOND, Moment
from palestra.runtime.clock import DRIFT, RunClock
from palestra.runtime.compare import Act, StopAttempt, StopSession, World, compare
from palestra.runtime.desk import Desk
from palestra.runtime.hands import Facts, Hands
from palestra.state.arena import State
from palestra.state.catalog import View

T = TypeVar("T")

THREADS = 8
LOOK = SECOND // 5
"""Between looks while anything runs or is copied."""
REST = 5 * SECOND
"""Between looks while nothing does."""
COUNT = 60 * SECOND
"""Between counts of repeated refusals."""
PAUSE = SECOND
"""Before an act that failed is tried again."""
_ONCE = (StopAttempt, StopSession)
"""Acts that go on by themselves once asked: given once a server's life."""

log = logging.getLogger("palestra.reconciler")


class Reconciler:
    """One loop a served run. Its acts run in threads; facts go to the desk on the loop."""

    def __init__(
        self, desk: Desk, executor: Executor, sessions: Processes, vault: Vault, hands: Hands, clock: RunClock
    ) -> None:
        self._desk = desk
        self._executor = executor
        self._sessions = sessions
        self._vault = vault
        self._hands = hands
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="reconciler")
        """Threads of its own: whatever agents' requests do to the others, starts and stops go on."""
        self._doing: dict[Act, asyncio.Task[None]] = {}
        self._done_once: set[Act] = set()
        self._count_at = clock.now() + COUNT

    async def run(self) -> None:
        """Until cancelled, or `Broken` from a desk that can't write."""
        try:
            while True:
                busy = self.round(await self._in_thread(self._look))
                await self._tell(busy[0])
                await self._do(busy[1])
                await self._look_about()
                await self._rest()
        finally:
            for task in self._doing.values():
                task.cancel()

    def round(self, world: World) -> tuple[list[Observation], list[Act]]:
        """Compare one look with the book; what is being done just now is left alone."""
        state = self._desk.view().state
        told, acts = compare(state, world, frozenset(self._doing))
        acts = [act for act in acts if act not in self._doing and act not in self._done_once]
        wanted = {name_act(act) for act in (*acts, *self._doing)}
        over = [alarm for alarm in state.alarms if _is_acts(alarm) and alarm not in wanted]
        return told + [TroubleOver(alarm) for alarm in over], acts

    def _look(self) -> World:
        doing = frozenset(self._doing)
        polled = self._executor.poll()
        attempts = None if isinstance(polled, Unreachable) else {one.attempt: one for one in polled}
        sessions = {one.key: one for one in self._sessions.poll()}
        copies = {one.copy: one for one in self._vault.results()}
        return World(attempts, sessions, copies, polled.why if isinstance(polled, Unreachable) else "", doing)

    async def _tell(self, told: list[Observation]) -> None:
        for observation in told:
            await self._desk.tell(observation)

    async def _do(self, acts: list[Act]) -> None:
        """Nothing is done before what it follows from is on disk."""
        view = self._desk.view()
        prepared = [(act, self._prepare(act, view)) for act in acts if still_open(act, view.state)]
        await self._desk.durable()
        for act, run in prepared:
            self._doing[act] = asyncio.create_task(self._carry_out(act, run))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _prepare(self, act: Act, view: View) -> Facts:
        """What can't even be prepared fails when it is carried out, as everything else does."""
        try:
            return self._hands.prepare(act, view)
        except Exception as error:
            failure = error

        def fail() -> list[Observation]:
            raise failure

        return fail

    async def _carry_out(self, act: Act, run: Facts) -> None:
        try:
            for observation in await self._in_thread(run):
                await self._desk.tell(observation)
            if isinstance(act, _ONCE):
                self._done_once.add(act)
        except (
            Exception
        ) as error:  # whatever it is, it must be heard of: an act that is wanted is tried again
            if not isinstance(error, PalestraError | OSError):
                log.exception("%s failed", name_act(act))
            with suppress(Broken):  # a desk that can't write says so itself
                await self._desk.tell(Trouble(name_act(act), say_failure(act, error)))
                await asyncio.sleep(PAUSE / SECOND)  # not in a tight loop
        finally:
            del self._doing[act]
            self._desk.wake()

    async def _look_about(self) -> None:
        """Time, refusals and the wall clock: told when there is something to tell."""
        now = self._clock.now()
        due = next_due(self._desk.view().state)
        if due is not None and due <= now:
            await self._desk.tell(Tick())
        if now >= self._count_at:
            self._count_at = now + COUNT
            for repeat in self._desk.repeats():
                await self._desk.tell(repeat)
        drift = self._clock.drift()
        if abs(drift) > DRIFT:
            ahead = "ahead of" if drift > 0 else "behind"
            text = f"the wall clock is more than {DRIFT // SECOND} s {ahead} the run's clock, which goes on evenly"
            await self._desk.tell(Trouble("clock_drift:server", text))
        else:
            await self._desk.tell(TroubleOver("clock_drift:server"))

    async def _rest(self) -> None:
        state, now = self._desk.view().state, self._clock.now()
        busy = (
            state.attempts
            or state.sessions
            or any(one.state != "accepted" for one in state.nominations.values())
        )
        until = now + (LOOK if busy or self._doing else REST)
        due = next_due(state)
        await self._desk.changed(Moment(min(until, max(due, now)) if due is not None else until))
        if busy:  # looks cost processes' time: at most one in a while, however much is ruled meanwhile
            await self._clock.sleep_until(Moment(min(until, now + LOOK // 4)))


def name_act(act: Act) -> str:
    """The alarm of an act that fails: `start_attempt:A-j1.1`, so that each is one alarm."""
    fields = act.__struct_fields__
    return f"{_snake(type(act))}:{getattr(act, fields[0]) if fields else 'run'}"


def say_failure(act: Act, error: Exception) -> str:
    """A sentence for the organiser."""
    what, _, about = name_act(act).partition(":")
    why = str(error) if isinstance(error, PalestraError | OSError) else f"{type(error).__name__}: {error}"
    return f"{what.replace('_', ' ')} failed for {about} and is tried again: {why}"


def _snake(kind: type[Act]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _is_acts(alarm: str) -> bool:
    return alarm.partition(":")[0] in {_snake(kind) for kind in Act.__subclasses__()}


def still_open(act: Act, state: State) -> bool:
    """Whether what the act is about is still open: facts told in this round may have ended it."""
    for field, room in (
        ("attempt", state.attempts),
        ("session", state.sessions),
        ("nomination", state.nominations),
    ):
        name = getattr(act, field, None)
        if name is not None and name not in room:
            return False
    return True

"""May this job be queued, may it be cancelled; what an attempt's end means for it."""

from __future__ import annotations

from palestra.events.base import Event, clip
from palestra.events.jobs import AttemptEnded, Cause, End, JobEnded, JobSpec, JobSubmitted, StopAsked
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.referee.causes import classify
from palestra.referee.observations import AttemptExited, AttemptLost
from palestra.referee.repeat import fingerprint
from palestra.referee.requests import CancelJob, SubmitJob
from palestra.referee.seats import seated
from palestra.rules.errors import Refusal
from palestra.rules.units import GpuMicros, Micros, Moment, show_duration, show_gpu_time, show_size
from palestra.state.accounts import GPU
from palestra.state.arena import Attempt, Job, State, next_id
from palestra.state.clock import stage_end
from palestra.state.queue import HOUSE

HOUSE_TRIES = 3
"""How often the arena's own work is tried when the world, not the work, failed. An exam goes on after its last answer."""


def submit(state: State, request: SubmitJob, at: Moment) -> list[Event] | Refusal:
    """Admission: everything that can be known now is checked now, and each no names field, value and what fits."""
    seat = seated(state, request.actor, at)
    if isinstance(seat, Refusal):
        return seat
    refusal = (
        _shape(state, request.spec)
        or _time(state, request.spec, at)
        or _budget(state, request.actor, request.spec)
    )
    if refusal is not None:
        return refusal
    waiting = sum(1 for job in state.jobs.values() if job.corner == request.actor and not job.attempt)
    if waiting >= state.rules.jobs.queued:
        return Refusal(
            "queue_full",
            f"{waiting} of your jobs are waiting, the most allowed; cancel one or wait",
            facts={"waiting": waiting},
        )
    job = next_id(state, request.actor, "j")
    return [
        JobSubmitted(job, request.actor, request.spec, session=request.session, asked=fingerprint(request))
    ]


def _shape(state: State, spec: JobSpec) -> Refusal | None:
    rules = state.rules.jobs
    if not 1 <= spec.gpus <= rules.gpus_per_job:
        return Refusal(
            "gpus_out_of_range",
            f"gpus = {spec.gpus}; a job may have 1 to {rules.gpus_per_job}",
            subject="gpus",
        )
    cap = rules.memory_per_gpu * spec.gpus
    if not 0 < spec.memory <= cap:
        return Refusal(
            "memory_over_cap",
            f"memory = {show_size(spec.memory)} for {spec.gpus} GPU; the cap is {show_size(rules.memory_per_gpu)} per GPU, "
            f"so {show_size(cap)} here",
            subject="memory",
            facts={"cap": cap},
        )
    if not any(node.gpus >= spec.gpus and node.memory >= spec.memory for node in state.rules.nodes):
        biggest = max(state.rules.nodes, key=lambda node: (node.gpus, node.memory))
        return Refusal(
            "never_fits",
            f"no node has {spec.gpus} GPUs and {show_size(spec.memory)}; the biggest, {biggest.name}, has "
            f"{biggest.gpus} and {show_size(biggest.memory)}",
        )
    return None


def _time(state: State, spec: JobSpec, at: Moment) -> Refusal | None:
    longest = state.rules.jobs.longest
    if not 0 < spec.limit <= longest:
        return Refusal(
            "time_over_limit",
            f"time = {show_duration(spec.limit)}; a job may ask for at most {show_duration(longest)}",
            subject="time",
        )
    end = stage_end(state)
    if end is not None and at + spec.limit > end:
        return Refusal(
            "time_over_stage",
            f"time = {show_duration(spec.limit)} is more than the stage has left ({show_duration(end - at)}); ask for less",
            subject="time",
            facts={"left": end - at},
        )
    return None


def _budget(state: State, corner: str, spec: JobSpec) -> Refusal | None:
    account = state.accounts[corner, GPU]
    needed = spec.gpus * spec.limit
    if needed > account.left + account.held:
        return Refusal(
            "gpu_time_spent",
            f"{spec.gpus} GPU for {show_duration(spec.limit)} holds {show_gpu_time(needed)}; "
            f"{show_gpu_time(account.left + account.held)} is not yet spent",
            subject="time",
            facts={"needed": needed, "left": account.left, "held": account.held},
        )
    return None


def cancel(state: State, request: CancelJob, at: Moment) -> list[Event] | Refusal:
    """Take a waiting job out at once; ask a running one to stop. Cancelling stays possible after finish and end."""
    job = state.jobs.get(request.job)
    if job is None or job.corner != request.actor:
        return Refusal("no_such_job", f"you have no open job {request.job[:40]!r}", subject="job")
    if not job.attempt:
        return [ended(job, "cancelled", "cancelled", fingerprint(request))]
    attempt = state.attempts[job.attempt]
    if attempt.stopping != "none":
        return Refusal("stopping", f"{job.job} is being stopped already", subject=job.job)
    return [StopAsked(attempt.attempt, job.job, job.corner, "cancelled", request.actor, fingerprint(request))]


def ended(job: Job, end: End, cause: Cause, asked: str = "") -> JobEnded:
    """The job's own last event."""
    return JobEnded(job.job, job.corner, end, cause, job.attempts, asked)


def exited(state: State, seen: AttemptExited) -> list[Event]:
    """Settle an attempt by its measured times; a job that gave way to the arena's own stop queues again, free of charge."""
    attempt = state.attempts.get(seen.attempt)
    if attempt is None:
        return [ObservationIgnored(seen.attempt, "AttemptExited")]
    end, cause, evidence = classify(
        exit_code=seen.exit_code,
        over_time=seen.over_time,
        over_memory=seen.over_memory,
        missing_outputs=seen.missing_outputs,
        log_tail=seen.log_tail,
        stopped_for=attempt.stopping,
        limit=Micros(attempt.limit),
        measured=(seen.ended - seen.started) if seen.ended is not None and seen.started is not None else None,
    )
    return _settle(state, attempt, seen, end, cause, evidence)


def lost(state: State, seen: AttemptLost) -> list[Event]:
    """Gone without a trace: never charged (F21)."""
    attempt = state.attempts.get(seen.attempt)
    if attempt is None:
        return [ObservationIgnored(seen.attempt, "AttemptLost")]
    nothing = AttemptExited(seen.attempt, None, None, None)
    if attempt.stopping == "server_stop":
        return _settle(
            state, attempt, nothing, "preempted", "server_stop", "gone while the server stopped it"
        )
    events = _settle(state, attempt, nothing, "lost", "infrastructure", "gone without a status")
    if attempt.corner == HOUSE:
        return events
    text = f"{attempt.attempt} is gone without a status and was not charged; a job that ends its own shim looks like this too"
    return [*events, AlarmRaised(f"attempt_lost:{attempt.attempt}", text)]


def _settle(
    state: State, attempt: Attempt, seen: AttemptExited, end: End, cause: Cause, evidence: str
) -> list[Event]:
    free = attempt.corner == HOUSE or cause in ("server_stop", "infrastructure")
    events: list[Event] = [
        AttemptEnded(
            attempt.attempt, attempt.job, attempt.corner, end, cause, clip(evidence), seen.exit_code, seen.started,
            seen.ended, GpuMicros(0) if free else charge(attempt, seen), seen.peak_memory,
        )
    ]  # fmt: skip
    job = state.jobs[attempt.job]
    if not _again(job, end, cause):
        events.append(ended(job, end, cause))
    return events


def _again(job: Job, end: End, cause: Cause) -> bool:
    if cause == "server_stop":
        return True
    return job.corner == HOUSE and end in ("lost", "timed_out") and job.attempts < HOUSE_TRIES


def charge(attempt: Attempt, seen: AttemptExited) -> GpuMicros:
    """GPUs times measured time, never more than was held: what the arena takes to kill is its own."""
    if seen.started is None or seen.ended is None:
        return GpuMicros(0)
    return GpuMicros(min(attempt.hold, len(attempt.gpus) * max(0, seen.ended - seen.started)))

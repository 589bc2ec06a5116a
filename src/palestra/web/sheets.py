"""What an entrant's door shows, as builtins ready for JSON: views in, the shapes of the API out. Only its own corner's."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from palestra.referee.schedule import explain
from palestra.rules.units import (
    Moment,
    exact_dollars,
    show_dollars,
    show_duration,
    show_gpu_time,
    show_size,
    show_t,
)  # fmt: skip
from palestra.state.accounts import API, GPU
from palestra.state.arena import Account, State
from palestra.state.catalog import JobCard, NominationCard, View
from palestra.state.clock import stage_end

SHORT = 3 * 3600 * 1_000_000
"""Competitions shorter than this show seconds in T+."""
_PROGRESS = re.compile(rb"PALESTRA progress step=(\d+) of=(\d+)")

Sheet = dict[str, object]


def t(state: State, at: int | None) -> str | None:
    """T+ of a moment in this run."""
    if at is None:
        return None
    return show_t(at, state.clock.start, seconds=state.rules.stages.running < SHORT)


def show_instant(state: State, at: Moment) -> str:
    """One instant in UTC, in the display zone where that is another, and as T+ (F53)."""
    utc = datetime.fromtimestamp(at / 1e6, UTC)
    local = utc.astimezone(ZoneInfo(state.rules.zone))
    there = "" if local.tzname() == "UTC" else f"{local:%Y-%m-%d %H:%M:%S %Z}, "
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC ({there}{t(state, at)})"


def status(view: View, corner: str) -> Sheet:
    """Where the corner stands: time, accounts, the binding limit, jobs, nomination."""
    state, at = view.state, view.at
    seat = state.corners[corner]
    end = stage_end(state)
    api, gpu = state.accounts[corner, API], state.accounts[corner, GPU]
    mine = [job for job in state.jobs.values() if job.corner == corner]
    current = view.catalog.nominations.get(seat.current)
    return {
        "run": state.opened.run if state.opened else "",
        "title": state.rules.title,
        "corner": corner,
        "name": seat.name,
        "at": at,
        "t": t(state, at),
        "stage": state.clock.stage,
        "stage_ends": end,
        "stage_ends_shown": show_instant(state, end) if end is not None else None,
        "left": show_duration(max(0, end - at) // 1_000_000 * 1_000_000) if end is not None else None,
        "paused": state.clock.paused,
        "finished_t": t(state, seat.finished),
        "isolation": state.opened.isolation if state.opened else "",
        "gpus_are": ", ".join(sorted({node.gpu_kind for node in state.rules.nodes})),
        "api": _account(api, show_dollars),
        "gpu": _account(gpu, show_gpu_time),
        "binding": binding(state, corner, at),
        "jobs": {
            "queued": sum(not job.attempt for job in mine),
            "running": sum(bool(job.attempt) for job in mine),
        },
        "nomination": _current(state, current),
        "notices": [],
    }


def _account(account: Account, show: object) -> Sheet:
    assert callable(show)
    amounts = {"limit": account.limit, "spent": account.spent, "held": account.held, "left": account.left}
    return {**amounts, "shown": {name: show(amount) for name, amount in amounts.items()}}


def _current(state: State, card: NominationCard | None) -> Sheet | None:
    if card is None:
        return None
    kind = card.inspection.kind if card.inspection else ""
    return {"id": card.nomination, "since_t": t(state, card.requested), "kind": kind, "label": card.label}


def binding(state: State, corner: str, at: Moment) -> str:
    """Which limit comes first: time with the cap on running GPUs, GPU-time, or credit (S54)."""
    end = stage_end(state)
    if end is None or state.clock.stage != "running":
        return "nothing can be used now" if state.clock.stage != "running" else "paused: the end moves on"
    gpu, api = state.accounts[corner, GPU], state.accounts[corner, API]
    cap = state.rules.jobs.gpus_running
    usable = max(0, end - at) * cap
    if api.left <= 0:
        return "api_credit: none is left; jobs go on"
    if usable < gpu.left:
        return f"time: at most {show_gpu_time(usable)} can still be used ({cap} GPUs until the end), {show_gpu_time(gpu.left)} is left"
    return f"gpu_time: {show_gpu_time(gpu.left)} is left, time would allow {show_gpu_time(usable)}"


def job_sheet(view: View, card: JobCard, log_tail: bytes = b"") -> Sheet:
    """One job with its state, end, cause and evidence, and why it waits."""
    state = view.state
    last = card.attempts[-1] if card.attempts else None
    done = last.ended if last else None
    live = state.jobs.get(card.job)
    word = "ended" if card.ended else "queued" if live is not None and not live.attempt else "running"
    if word == "running" and last and last.stopping:
        word = "stopping"
    return {
        "id": card.job,
        "name": card.spec.name,
        "state": word,
        "end": card.ended.end if card.ended else None,
        "cause": card.ended.cause if card.ended and card.ended.cause != "none" else None,
        "evidence": done.evidence if done else "",
        "gpus": card.spec.gpus,
        "memory": show_size(card.spec.memory),
        "limit": show_duration(card.spec.limit),
        "submitted_t": t(state, card.submitted),
        "started_t": t(state, last.placed) if last else None,
        "ended_t": t(state, card.ended_at),
        "attempts": len(card.attempts),
        "node": last.node if last else None,
        "exit_code": done.exit_code if done else None,
        "gpu_time_charged": show_gpu_time(sum(one.ended.charge for one in card.attempts if one.ended)),
        "peak_memory": show_size(done.peak_memory) if done and done.peak_memory is not None else None,
        "progress": progress(log_tail),
        "wait": wait_sheet(view, card.job) if word == "queued" else None,
    }


def progress(log_tail: bytes) -> Sheet | None:
    """The last documented progress line of a log."""
    found = _PROGRESS.findall(log_tail)
    return {"step": int(found[-1][0]), "of": int(found[-1][1])} if found else None


def wait_sheet(view: View, job: str) -> Sheet | None:
    """Why a job waits, exactly."""
    if job not in view.state.jobs:
        return None
    wait = explain(view.state, job, view.at)
    return {
        "resource": wait.resource, "needed": wait.needed, "missing": wait.missing, "best_node": wait.best_node,
        "holders": list(wait.holders), "sentence": wait.sentence,
    }  # fmt: skip


def nomination_sheet(view: View, card: NominationCard) -> Sheet:
    """One nomination; requested, copied and decided are separate times (S04)."""
    state, inspection, accepted = view.state, card.inspection, card.accepted
    return {
        "id": card.nomination,
        "artifact": card.artifact,
        "state": card.state,
        "current": card.current,
        "kind": inspection.kind if inspection else "",
        "same_weights": card.again,
        "label": card.label,
        "step": card.step,
        "requested_t": t(state, card.requested),
        "copied_t": t(state, card.copied),
        "decided_t": t(state, card.decided),
        "code": card.code,
        "message": card.message,
        "probes": {"asked": accepted.probes, "stopped": accepted.stopped, "differing": accepted.differing}
        if accepted
        else None,
        "notes": list(inspection.notes) if inspection else [],
    }


def rules_page(view: View, terms: str) -> str:
    """What the competition is, as Markdown for agents."""
    state = view.state
    rules, stages = state.rules, state.rules.stages
    end = stage_end(state) if state.clock.stage == "running" else Moment(state.clock.start + stages.running)
    nodes = "\n".join(
        f"- {node.name}: {node.gpus} GPUs ({node.gpu_kind}), {show_size(node.memory)}" for node in rules.nodes
    )
    models = "\n".join(
        f"- {one.name}: {exact_dollars(one.price.input)} per million input tokens, {exact_dollars(one.price.output)} output, "
        f"{exact_dollars(one.price.cached_input)} cached input; at most {one.output_ceiling} output tokens a call"
        for one in rules.models
    )
    ends = f"- Ends: {show_instant(state, end)}" if end is not None else "- Ends: paused, the end moves on"
    slots = (
        "\nThis machine has no GPUs: a `slot` stands for one, and is shared CPU time.\n"
        if any(node.gpu_kind == "slot" for node in rules.nodes)
        else ""
    )
    return f"""# {rules.title}

{rules.task}

## Time
- Started (T+0:00): {show_instant(state, state.clock.start)}
{ends} (pauses {"move it on" if stages.pause == "extend" else "don't move it"})
- What is nominated before the end is copied and checked within {show_duration(stages.closing)} after it, then examined.

## What you may use
- {show_dollars(rules.allowance.api_credit)} of API credit, {show_gpu_time(rules.allowance.gpu_time)} of GPU-time
{models}

## Jobs
{nodes}
{slots}
- A job has 1 to {rules.jobs.gpus_per_job} GPUs, at most {show_size(rules.jobs.memory_per_gpu)} of memory per GPU, and a time limit of at most {show_duration(rules.jobs.longest)}.
- Your running jobs hold at most {rules.jobs.gpus_running} GPUs; at most {rules.jobs.queued} may wait.
- Durations have units: `90m`, `2h30m`, `PT2H`. Sizes too: `2GiB` (binary) or `2GB` (decimal).
- GPU-time for the whole limit is held when a job starts and settled from what it really took.
- A job counts as completed when it exits with 0 and its declared outputs (`--out`) exist and are new.

## Nominating
- `arena seal DIR`, `arena nominate DIR`: safetensors only, a LoRA adapter or a full model of the same base. The latest accepted one counts.
- It is copied, compared with the base (an unchanged copy is refused), served and asked a few probes before it becomes current.
- The exam: {rules.exam.questions:,} hidden questions, made after everything has stopped; all of them count.

## Terms
{terms.strip() or "None beyond the above."}
"""

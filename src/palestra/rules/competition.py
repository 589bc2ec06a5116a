"""A competition's rules as structs: what `competition.toml` says, read once, never changed but by recorded events."""

from __future__ import annotations

from typing import Literal

import msgspec

from palestra.rules.prices import Price
from palestra.rules.units import Bytes, GpuMicros, Micros, Moment, NanoDollars

AT_RUN = "at-run"
"""The start of a competition that begins when `palestra run` first opens it."""

PauseRule = Literal["extend", "absorb"]


class _Rule(msgspec.Struct, frozen=True):
    """Every rule is frozen; fields are named as in the file."""


class Stages(_Rule, frozen=True):
    """When the competition runs, and how long its later stages may take at most."""

    start: Moment | None
    """None: at the instant of the first `palestra run`."""
    running: Micros
    closing: Micros
    """For copies and validations in flight; ends as soon as none is left."""
    judging: Micros
    """For exams; ends as soon as all are scored."""
    pause: PauseRule = "extend"
    end_when_all_finished: bool = False


class Allowance(_Rule, frozen=True):
    """What every corner may use: the same for all."""

    api_credit: NanoDollars
    gpu_time: GpuMicros


class Node(_Rule, frozen=True):
    """A machine for jobs. `gpu_kind` is what one of its GPUs is; `slot` on a machine that has none."""

    name: str
    gpus: int
    memory: Bytes
    gpu_kind: str = "slot"


class JobRules(_Rule, frozen=True):
    """What a job may ask for."""

    longest: Micros
    memory_per_gpu: Bytes
    """The cap on memory reserved per GPU; by default the smallest node's memory over its GPUs."""
    gpus_per_job: int
    gpus_running: int
    """The most GPUs a corner's running jobs may hold; waiting jobs don't count (F14, S79)."""
    queued: int = 200
    environment: str = ""
    """A folder put first on the PATH of shells and jobs, for example a venv's `bin`; empty: this server's own."""


class Upstream(_Rule, frozen=True):
    """Where a model's calls go: an OpenAI-compatible address, or a playbook that is played for it."""

    name: str
    url: str = ""
    key_env: str = ""
    key_file: str = ""
    playbooks: str = ""
    """A folder of playbooks for the scripted upstream, one a model: `UPSTREAM_MODEL.toml`."""


class Model(_Rule, frozen=True):
    """A model that agents may call, with its frozen price."""

    name: str
    upstream: str
    upstream_model: str
    price: Price
    output_ceiling: int = 8192
    """Output tokens held for a call that names no maximum; also the largest maximum accepted."""
    output_floor: int = 256
    """Near the end of the credit the output cap shrinks, but not below this."""


class EntrantRule(_Rule, frozen=True):
    """Who competes. Corners are given out in file order: A, B, ..."""

    name: str
    lab: str = ""
    alias: str = ""
    """Shown everywhere in place of name and lab; the true name is then only a salted commitment."""
    harness: str = "house"
    model: str = ""
    command: tuple[str, ...] = ()
    """The argv of the `command` harness."""


class Base(_Rule, frozen=True):
    """The base model that everyone starts from: a folder, relative to the competition's."""

    path: str


class Prepare(_Rule, frozen=True):
    """A command run once, before the first run, when `creates` isn't there yet."""

    creates: str
    run: tuple[str, ...]


class Data(_Rule, frozen=True):
    """A read-only folder that agents and jobs see as `data/NAME` in their homes."""

    name: str
    path: str


class Serving(_Rule, frozen=True):
    """How a model is started for validation and exams; `{base}`, `{model}` and `{socket}` are filled in."""

    base: tuple[str, ...]
    adapter: tuple[str, ...]
    full: tuple[str, ...]
    memory: Bytes
    longest: Micros
    gpus: int = 0
    parallel: int = 32
    """Requests in flight while an exam is answered."""


class Exam(_Rule, frozen=True):
    """The hidden exam: a program run on the organiser's side only."""

    program: str
    questions: int
    args: tuple[str, ...] = ()


class Competition(_Rule, frozen=True):
    """The written rules of one event."""

    name: str
    title: str
    zone: str
    stages: Stages
    allowance: Allowance
    base: Base
    nodes: tuple[Node, ...]
    jobs: JobRules
    upstreams: tuple[Upstream, ...]
    models: tuple[Model, ...]
    entrants: tuple[EntrantRule, ...]
    serving: Serving
    exam: Exam
    data: tuple[Data, ...] = ()
    prepare: tuple[Prepare, ...] = ()
    task: str = "Improve the base model by post-training and nominate your best checkpoint."
    """What agents are told to do, in the organiser's words."""

    def model(self, name: str) -> Model | None:
        """The model that agents call by this name."""
        return next((model for model in self.models if model.name == name), None)

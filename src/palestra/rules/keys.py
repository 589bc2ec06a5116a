"""Every table and key of `competition.toml`: what may be written, how it is read and what it means; the reference page's source."""

from __future__ import annotations

import msgspec

from palestra.rules.values import (
    ARGUMENTS,
    ARGV,
    DOLLARS,
    DURATION,
    GPU_TIME,
    INSIDE,
    INSTANT,
    LABEL,
    MODEL_NAME,
    PATH,
    PRICE,
    SIZE,
    SLUG,
    START,
    TASK,
    URL,
    VARIABLE,
    YES,
    Kind,
    one_of,
    whole,
)

FORMAT = 1
NONE = "none"
MOST_ENTRANTS = 26


class Key(msgspec.Struct, frozen=True):
    """A key: its name, the kind of its value, what it means, and what holds when it isn't written."""

    name: str
    kind: Kind
    meaning: str
    default: str = ""
    """As the page shows it; empty: the key must be written."""


class Table(msgspec.Struct, frozen=True):
    """A table: `[name]`, or `[[name]]` as often as `most` allows; the nameless one is the top of the file."""

    name: str
    meaning: str
    keys: tuple[Key, ...]
    least: int = 1
    most: int = 1
    many: bool = False

    @property
    def title(self) -> str:
        """As it is written in the file."""
        return f"[[{self.name}]]" if self.many else f"[{self.name}]"


_TOP = Table(
    "",
    "At the top of the file, before the first table.",
    (
        Key("palestra", whole(FORMAT, FORMAT), "The format of this file."),
        Key("name", SLUG, "The competition's name in paths and addresses."),
        Key("title", LABEL, "The competition's name as people read it."),
        Key("zone", LABEL, "The IANA time zone for display. No rule depends on it.", '"UTC"'),
        Key(
            "task",
            TASK,
            "What agents are told to do.",
            "improve the base model and nominate the best checkpoint",
        ),
    ),
)
_STAGES = Table(
    "stages",
    "When the competition runs. Later stages end early when nothing is left to do in them.",
    (
        Key(
            "start",
            START,
            "When the running stage starts: T+0. `at-run`: when `palestra run` first opens the run.",
        ),
        Key("running", DURATION, "How long agents work.", "`end` - `start`"),
        Key(
            "end",
            INSTANT,
            "When the running stage ends. If both are written they must agree.",
            "`start` + `running`",
        ),
        Key("closing", DURATION, "The most time for copies and validations still in flight at the end."),
        Key("judging", DURATION, "The most time for exams."),
        Key(
            "pause",
            one_of("extend", "absorb"),
            "`extend`: a pause moves the end of its stage by its length. `absorb`: ends stand.",
            '"extend"',
        ),
        Key("end_when_all_finished", YES, "End the running stage once every entrant has finished.", "false"),
    ),
)
_ALLOWANCE = Table(
    "allowance",
    "What each entrant may use: the same for all.",
    (
        Key("api_credit", DOLLARS, "Credit for model calls."),
        Key("gpu_time", GPU_TIME, "GPU-time for jobs."),
    ),
)
_BASE = Table("base", "The base model.", (Key("path", PATH, "Its folder."),))
_PREPARE = Table(
    "prepare",
    "A command that is run once before the first run, in file order, when what it makes isn't there yet.",
    (
        Key("creates", INSIDE, "The file or folder it makes."),
        Key("run", ARGV, "The command, run in this file's folder."),
    ),
    least=0,
    most=100,
    many=True,
)
_DATA = Table(
    "data",
    "A read-only folder for agents and jobs.",
    (
        Key("name", SLUG, "Agents and jobs see it as `data/NAME` in their homes."),
        Key("path", PATH, "The folder."),
    ),
    least=0,
    most=100,
    many=True,
)
_NODES = Table(
    "nodes",
    "A machine for jobs.",
    (
        Key("name", SLUG, "Its name in the queue."),
        Key("gpus", whole(1, 1_024), "Its GPUs, or slots on a machine that has none."),
        Key("memory", SIZE, "The memory jobs may reserve on it."),
        Key("gpu_kind", LABEL, "What one of its GPUs is, for example `H100`.", '"slot"'),
    ),
    most=1_024,
    many=True,
)
_JOBS = Table(
    "jobs",
    "What a job may ask for.",
    (
        Key("longest", DURATION, "The longest time limit."),
        Key(
            "memory_per_gpu",
            SIZE,
            "The most memory for each GPU.",
            "the smallest node's memory over its GPUs",
        ),
        Key("gpus_per_job", whole(1, 1_024), "The most GPUs."),
        Key(
            "gpus_running",
            whole(1, 100_000),
            "The most GPUs that an entrant's running jobs may hold together.",
        ),
        Key("queued", whole(1, 10_000), "The most jobs that an entrant may have waiting.", "200"),
        Key("environment", PATH, "A folder put first on the PATH of shells and jobs.", "this server's own"),
    ),
)
_UPSTREAMS = Table(
    "upstreams",
    "Where model calls go: `url` or `playbooks`, not both.",
    (
        Key("name", SLUG, "Its name in `[[models]]`."),
        Key("url", URL, "The address of an OpenAI-compatible API, up to `/v1`.", NONE),
        Key("key_env", VARIABLE, "The environment variable that holds the API key.", NONE),
        Key("key_file", PATH, "The file, readable by its owner only, that holds the API key.", NONE),
        Key("playbooks", PATH, "A folder of playbooks: a scripted upstream that plays them.", NONE),
    ),
    least=0,
    most=100,
    many=True,
)
_MODELS = Table(
    "models",
    "A model that agents may call, and its price. Without a price it can't be called.",
    (
        Key("name", MODEL_NAME, "The name agents use."),
        Key("upstream", SLUG, "Which of `[[upstreams]]` answers."),
        Key(
            "upstream_model",
            MODEL_NAME,
            "The name sent upstream, or of the playbook's file without `.toml`.",
            "`name`",
        ),
        Key("input", PRICE, "The price of input."),
        Key("output", PRICE, "The price of output."),
        Key("cached_input", PRICE, "The price of input read from the upstream's cache.", "`input`"),
        Key("cache_write", PRICE, "The price of input written to the upstream's cache.", "`input`"),
        Key(
            "output_ceiling",
            whole(1, 10_000_000),
            "The most output tokens of a call, and what is held for one that names no maximum.",
            "8192",
        ),
        Key(
            "output_floor",
            whole(1, 10_000_000),
            "Near the end of the credit a call's maximum shrinks, but not below this.",
            "256, or `output_ceiling` where that is less",
        ),
    ),
    least=0,
    most=100,
    many=True,
)
_ENTRANTS = Table(
    "entrants",
    "Who competes. The first gets corner A, the next B, and so on.",
    (
        Key("name", LABEL, "The agent."),
        Key("lab", LABEL, "Who made it.", NONE),
        Key("alias", LABEL, "Shown everywhere instead of name and lab.", NONE),
        Key("harness", one_of("house", "command"), "What runs the agent.", '"house"'),
        Key("model", MODEL_NAME, "Which of `[[models]]` it works with; the house harness needs one.", NONE),
        Key("command", ARGV, "The program of the `command` harness.", NONE),
    ),
    most=MOST_ENTRANTS,
    many=True,
)
_SERVING = Table(
    "serving",
    "How a model is started for validation and exams. `{base}`, `{model}` and `{socket}` are filled in: "
    "the base model's folder, the nominated one's, and the unix socket to listen on.",
    (
        Key("base", ARGV, "Starts the base model."),
        Key("adapter", ARGV, "Starts the base model with a nominated adapter."),
        Key("full", ARGV, "Starts a nominated full model."),
        Key("memory", SIZE, "Memory reserved for a model server."),
        Key("longest", DURATION, "The longest time a model server may run."),
        Key("gpus", whole(0, 1_024), "GPUs reserved for a model server.", "0"),
        Key("parallel", whole(1, 10_000), "Requests in flight while an exam is answered.", "32"),
    ),
)
_EXAM = Table(
    "exam",
    "The hidden exam: a program run on the organiser's side only.",
    (
        Key("program", INSIDE, "Its Python file."),
        Key("questions", whole(1, 1_000_000), "How many questions each model is asked."),
        Key("args", ARGUMENTS, "More arguments for it.", NONE),
    ),
)

TABLES = (
    _TOP, _STAGES, _ALLOWANCE, _BASE, _PREPARE, _DATA, _NODES, _JOBS, _UPSTREAMS, _MODELS, _ENTRANTS, _SERVING, _EXAM,
)  # fmt: skip

"""The first nomination of the event and of each method: facts in, one finding a method out.

It goes by the request (S04), and a nomination that was turned down is none. A label that the agent gave, such as
`backup`, is always said (S07): a test model isn't somebody's first model without it.
"""

from __future__ import annotations

from palestra.report.facts import Facts, NominationFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import kind, named, own

VERSION = 1
_TITLES = {"lora": "First LoRA adapter", "full": "First full model"}


def detect(facts: Facts) -> list[Finding]:
    """Those requested inside the window; whether one is the first is asked of everything before."""
    standing = [one for one in facts.nominations if one.state not in ("rejected", "withdrawn")]
    found, seen = [], set[str]()
    for one in standing:
        if one.kind is not None and one.kind not in seen:
            seen.add(one.kind)
            if facts.window.holds(one.requested.at):
                found.append(_finding(facts, one, of_event=one is standing[0]))
    return found


def _finding(facts: Facts, one: NominationFacts, *, of_event: bool) -> Finding:
    name = escape(named(facts, [one.corner]))
    at = Figure("at", "moment", one.requested.at, facts.t(one.requested.at), (one.requested.row,))
    figures = [at]
    what = "without a label" if not one.label else f"labelled “{escape(own(one.label, 40))}”"
    said = f"{name} nominated {one.nomination}, {what}"
    if one.step is not None:
        figures.append(Figure("step", "count", one.step, f"{one.step:,}", (one.requested.row,)))
        said += ", of training step {step}"
    said += ", at {at}."
    if one.decided is not None:
        figures.append(
            Figure("decided", "moment", one.decided.at, facts.t(one.decided.at), (one.decided.row,))
        )
        said += " It was copied, served and accepted by {decided}."
    else:
        said += " It is not decided yet."
    said += " It is the first nomination of all." if of_event else ""
    test = f", labelled “{escape(own(one.label, 24))}”" if one.label else ""
    return Finding(
        kind="first_nomination",
        version=VERSION,
        about=one.nomination,
        corners=(one.corner,),
        severity=3 if of_event else 2,
        consequence=3,
        positive=True,
        big="at",
        title=_TITLES.get(one.kind or "", "First nomination"),
        head=f"{name} is first with {kind(one)}{test}, at {{at}}.",
        said=said,
        figures=tuple(figures),
    )

"""How a report was made and what its figures mean: facts in, definitions and promises out."""

from __future__ import annotations

from palestra.report.facts import Facts
from palestra.report.words import capital, plural


def definitions(facts: Facts) -> tuple[tuple[str, str], ...]:
    """What each count counts (S11)."""
    unit = facts.unit
    unseen = plural(facts.charged_unseen, "call")
    return (
        ("API spent", "What model calls cost by the price card, posted when a call is settled. Calls still open are held, not spent."
         + (f" In this window {unseen} had no usage that was seen; they count with all that was held." if facts.charged_unseen else "")),
        (f"{capital(unit)}-time", f"{capital(unit)}s times measured time, posted when an attempt ends. What the arena itself stopped or lost is free. "
         f"Running attempts are held, not spent, so this lags behind what runs."),
        ("Jobs", "Every job that was submitted, tests and failed ones too. The arena’s own jobs (checks, exams) are not counted."),
        ("Nominations", "Every request to have a model judged, whatever became of it. Times and order go by the request; copied and decided are times of their own."),
        ("Current", "The nomination that would be judged: copied, served and accepted, the latest request first."),
        ("Even pace", "The part of an entrant’s own time that is gone: from its own start to the common end"
         + ("; it stands still in pauses." if facts.pauses else ". Used share and time are compared unrounded.")),
        ("Wait", "From submission to the start of an attempt, and again after the arena took its place away; told by what it waited for longest."),
        ("Steps", "Numbered messages, tool calls and results, counted as calls are settled."),
        ("Refused", "What was asked for and turned down by the rules. The first of a kind is told, repeats are counted."),
    )  # fmt: skip


def promises(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Why one can rely on it, and what one must know."""
    since, at = facts.t(facts.window.since), facts.t(facts.at)
    end = (
        "up to and without"
        if facts.window.until is not None and facts.at == facts.window.until
        else "up to its last row, at"
    )
    found = [
        ("Window", f"From {since} {end} {at}: {facts.rows:,} rows of the record."),
        ("As of", f"Every figure is as of one instant, {at}, row {facts.row:,}. What came later stands only under “After the snapshot”."),
        ("Digest", facts.digest),
        ("Check it", f"Row {facts.row:,} of the journal of {facts.run} has that digest, which covers all rows before it. "
         "The command palestra verify RUN computes the chain and the ledgers again."),
        ("Words", "Findings are computed: each comes from a detector with a version, and its sentence from a template. Nothing was written by a model or by hand."),
    ]  # fmt: skip
    if facts.last_row != facts.row:
        found.append(
            ("Read", f"The record was read up to row {facts.last_row:,}, digest {facts.last_digest}.")
        )
    if facts.isolation == "none":
        found.append(
            (
                "Unsandboxed",
                "Agents ran as ordinary processes of this machine. Nothing kept them apart but the rules.",
            )
        )
    else:
        found.append(("Isolation", facts.isolation))
    if facts.unit == "slot":
        found.append(
            (
                "Slots",
                "A slot is not a GPU. This machine has none: a slot stands for one, and is shared CPU time.",
            )
        )
    if any(seat.alias for seat in facts.corners):
        found.append(
            (
                "Aliases",
                "Entrants marked so compete under another name. The true one is sealed and not in the record.",
            )
        )
    return tuple(found)

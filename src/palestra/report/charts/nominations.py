"""The nominations on a line of time: one row a corner, marks at the request, copying and checking behind each; HTML out."""

from __future__ import annotations

from markupsafe import Markup

from palestra.report.drawing import Axis, Chart, axis, plane, scale, who
from palestra.report.evidence import Evidence
from palestra.report.facts import CornerFacts, Facts, NominationFacts
from palestra.report.words import capital, kind, named, number, own, plural, span

NARROW = 0.17
"""The part of a phone's track that a time takes."""
LONGEST_LABEL = 28


def draw(facts: Facts, evidence: Evidence) -> Chart:
    """Marks go by the request; the bar behind one lasts until the copy was kept, the thin line until it was decided."""
    line = axis(facts)
    rows = [_row(facts, evidence, seat, line) for seat in facts.corners]
    body = Markup('{}<div class="tl">{}<ol>{}</ol>{}</div>').format(
        _legend(facts), plane(facts, line), Markup().join(rows), scale(facts, line)
    )
    return Chart("nominations", "Nominations", _title(facts), _sub(facts), body)


def _title(facts: Facts) -> str:
    here = [one for seat in facts.corners for one in facts.nominations_of(seat.corner)]
    if not here:
        return "No nominations in this window"
    first = min(here, key=lambda one: one.requested.row)
    up = sum(
        any(one.current for one in facts.nominations if one.corner == seat.corner) for seat in facts.corners
    )
    seats = sum(seat.joined is not None for seat in facts.corners)
    have = (
        f"{number(up) if up else 'none'} of {plural(seats, 'agent')}"
        if seats > 1
        else "the agent"
        if up
        else "nobody"
    )
    verb = "have" if up > 1 else "has"
    return f"{capital(have)} {verb} a model up; {named(facts, [first.corner])} sent the first one"


def _sub(facts: Facts) -> str:
    copied = [
        one.copied.at - one.requested.at
        for seat in facts.corners for one in facts.nominations_of(seat.corner) if one.copied and not one.again
    ]  # fmt: skip
    said = "Each mark is a nomination at the instant of its request; the ringed one is current."
    if copied:
        low, high = span(min(copied)), span(max(copied))
        said += f" Copies took {low}." if low == high else f" Copies took {low} to {high}."
    return said


def _legend(facts: Facts) -> Markup:
    shown = [one for seat in facts.corners for one in facts.nominations_of(seat.corner)]
    marks = [
        ("dot lora", "LoRA adapter", any(one.kind == "lora" for one in shown)),
        ("dot full", "Full model", any(one.kind == "full" for one in shown)),
        ("dot open", "Undecided", any(one.kind is None and one.state != "rejected" for one in shown)),
        ("dot bad", "Rejected", any(one.state == "rejected" for one in shown)),
        ("copy", "Being copied", bool(shown)),
        ("val", "Being checked", any(one.copied for one in shown)),
    ]
    items = [
        Markup('<li><i class="{}"></i>{}</li>').format(style, name) for style, name, there in marks if there
    ]
    return Markup('<ul class="leg">{}</ul>').format(Markup().join(items)) if items else Markup()


def _row(facts: Facts, evidence: Evidence, seat: CornerFacts, line: Axis) -> Markup:
    mine = facts.nominations_of(seat.corner)
    count = Markup("") if seat.joined is None else Markup("{}").format(len(mine))
    marks = [_before(facts, seat, line), _stop(facts, seat, line)]
    marks += [_spans(facts, one, line) for one in mine]
    marks += [_mark(facts, evidence, one, line) for one in mine]
    marks += _labels(facts, mine, line)
    return Markup('<li>{}<span class="n">{}</span><div class="track">{}</div></li>').format(
        who(facts, seat.corner), count, Markup().join(marks)
    )


def _before(facts: Facts, seat: CornerFacts, line: Axis) -> Markup:
    """Blank where it hadn't started (S53)."""
    if seat.joined is None:
        when = f"announced for {facts.t(seat.starts)}" if seat.starts else "not started"
        said = "taken out before its start" if seat.removed else when
        return Markup('<span class="gone" style="left:0;width:100%">{}</span>').format(said)
    if not seat.late or seat.joined.at <= line.since:
        return Markup()
    place = line.x(seat.joined.at)
    said = f"joins {facts.t(seat.joined.at)}" if line.share(seat.joined.at) > NARROW else ""
    return Markup('<span class="gone" style="left:0;width:{}">{}</span>').format(place, said)


def _stop(facts: Facts, seat: CornerFacts, line: Axis) -> Markup:
    left = seat.removed or seat.finished
    if left is None or not line.since <= left.at <= line.until or seat.joined is None:
        return Markup()
    side = "l" if line.share(left.at) > 0.85 else "r"
    word = "taken out" if seat.removed else "done"
    return Markup(
        '<i class="stop" style="left:{0}"></i><span class="lab {1} wide stopped" style="left:{0}">{2} {3}</span>'
    ).format(line.x(left.at), side, word, facts.t(left.at))


def _spans(facts: Facts, one: NominationFacts, line: Axis) -> Markup:
    kept = one.copied.at if one.copied else one.decided.at if one.decided else facts.at
    tint = one.kind or "none"
    parts = [
        Markup('<i class="copy {}" style="left:{};width:{}"></i>').format(
            tint, line.x(one.requested.at), line.width(one.requested.at, kept)
        )
    ]
    if one.copied:
        decided = one.decided.at if one.decided else facts.at
        parts.append(
            Markup('<i class="val {}" style="left:{};width:{}"></i>').format(
                tint, line.x(kept), line.width(kept, decided)
            )
        )
    return Markup().join(parts)


def _mark(facts: Facts, evidence: Evidence, one: NominationFacts, line: Axis) -> Markup:
    said = say(facts, one)
    rows = [mark.row for mark in (one.requested, one.copying, one.copied, one.decided) if mark]
    style = "bad" if one.state == "rejected" else one.kind or "open"
    return Markup('<a class="dot {}{}" style="left:{}" href="{}" title="{}" aria-label="{}"></a>').format(
        style, " cur" if one.current else "", line.x(one.requested.at), evidence.cite(rows, f"Nomination {one.nomination}"), said, said
    )  # fmt: skip


def say(facts: Facts, one: NominationFacts) -> str:
    """All its times in words."""
    parts = [
        f"{one.nomination}{f' “{own(one.label, LONGEST_LABEL)}”' if one.label else ''} requested {facts.t(one.requested.at)}"
    ]
    if one.copied:
        parts.append(f"{'kept already' if one.again else 'kept'} {facts.t(one.copied.at)}, {kind(one)}")
    if one.decided:
        word = (
            "rejected" if one.state == "rejected" else "withdrawn" if one.state == "withdrawn" else "accepted"
        )
        parts.append(f"{word} {facts.t(one.decided.at)}")
    else:
        parts.append("undecided")
    if one.current:
        parts.append("current")
    return "; ".join(parts)


def _labels(facts: Facts, mine: tuple[NominationFacts, ...], line: Axis) -> list[Markup]:
    """Times above their marks, where there is room on a wide page, or also on a phone; else they are only in the title."""
    found, free = [], -0.05
    for index, one in enumerate(mine):
        place = line.share(one.requested.at)
        after = (line.share(mine[index + 1].requested.at) if index + 1 < len(mine) else 1.03) - place
        text = facts.t(one.requested.at).removeprefix("T+")
        label = f" · {own(one.label, LONGEST_LABEL)}" if one.label else ""
        if after < _width(text + label):
            label = ""
        width = _width(text + label)
        side = "r" if after >= width else "l" if place - free >= width else ""
        if not side:
            continue
        room = after if side == "r" else place - free
        free = place + width if side == "r" else place
        fit = "" if room >= NARROW else " wide"
        more = Markup('<span class="wide">{}</span>').format(label) if label else ""
        found.append(
            Markup('<span class="lab {}{}" style="left:{}" aria-hidden="true">{}{}</span>').format(
                side, fit, line.x(one.requested.at), text, more
            )
        )
    return found


def _width(text: str) -> float:
    """The part of a wide track that a label takes."""
    return 0.015 + 0.0085 * len(text)

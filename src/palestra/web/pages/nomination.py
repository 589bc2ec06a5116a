"""Nominations as listed: cards in; times, checks, settings and the way from asking to standing out."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.events.masking import Secret
from palestra.events.nominations import AnswerSettings
from palestra.state.arena import State
from palestra.state.catalog import NominationCard
from palestra.web.pages.figures import per_cent, span, t
from palestra.web.pages.text import Shown, line, show


class NominationRow(msgspec.Struct, frozen=True):
    """A nomination, as listed; asked, copied and decided are separate times (S04)."""

    id: str
    label: Markup
    note: Markup
    kind: str
    artifact: str
    step: str
    asked: str
    copied: str
    decided: str
    took: str
    state: str
    current: bool
    code: str
    message: Markup
    checks: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    stops: tuple[Markup, ...]
    system: Shown
    flow: tuple[float, float]
    """How long copying and validating took, in per cent of the whole."""


def nomination_row(state: State, card: NominationCard, secrets: tuple[Secret, ...]) -> NominationRow:
    """One nomination with what was checked and the settings frozen with it."""
    found, passed = card.inspection, card.accepted
    checks: list[tuple[str, str]] = []
    if found is not None:
        checks.append(("Every file matches its digest", "nothing copied again" if card.again else ""))
        checks.append(
            (
                "Differs from the base",
                f"relative change {found.relative_delta:.2g}, {found.tensors:,} tensors",
            )
        )
        checks += [(note, "") for note in found.notes]
    if passed is not None:
        checks.append(("Serves, and answers", f"{passed.probes - passed.empty} of {passed.probes} probes"))
        checks.append(("Stops by itself", f"{passed.stopped} of {passed.probes} probes"))
        if passed.differing is not None:
            checks.append(
                ("Answers otherwise than the base", f"{passed.differing} of {passed.probes} probes")
            )
    whole = max(1, (card.decided or card.requested) - card.requested)
    copied = card.copied if card.copied is not None else card.requested
    return NominationRow(
        id=card.nomination,
        label=line(card.label, secrets, 80),
        note=line(card.note, secrets, 300),
        kind=found.kind if found else "",
        artifact=card.artifact.removeprefix("sha256:"),
        step=f"step {card.step:,}" if card.step is not None else "",
        asked=t(state, card.requested),
        copied=t(state, card.copied),
        decided=t(state, card.decided),
        took=span(card.decided - card.requested) if card.decided is not None else "",
        state=card.state,
        current=card.current,
        code=card.code.replace("_", " "),
        message=line(card.message, secrets, 300),
        checks=tuple(checks),
        settings=_settings(card.settings),
        stops=tuple(line(one, secrets, 40) for one in card.settings.stop),
        system=show(card.settings.system_prompt, secrets, limit=1_200, lines=20),
        flow=(
            per_cent((copied - card.requested) / whole),
            per_cent((whole - (copied - card.requested)) / whole),
        ),
    )


def _settings(given: AnswerSettings) -> tuple[tuple[str, str], ...]:
    return (
        ("temperature", given.temperature[:40]),
        ("top_p", given.top_p[:40]),
        ("repetition penalty", given.repetition_penalty[:40]),
        ("max tokens", f"{given.max_tokens:,}"),
    )

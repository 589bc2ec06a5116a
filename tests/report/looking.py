"""A page read as a browser would: HTML in, its elements with their attributes and text out."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset({"meta", "input", "br", "link", "img"})


class Element:
    """A tag with its attributes, what is in it, and the text of all that."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Element] = []
        self.words: list[str] = []

    @property
    def classes(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        """All text in it, on one line."""
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str = "", style: str = "") -> list[Element]:
        """Every element below it with this tag and class."""
        found = []
        for child in self.children:
            if (not tag or child.tag == tag) and (not style or style in child.classes):
                found.append(child)
            found += child.all(tag, style)
        return found

    def measure(self, name: str) -> float:
        """A property of its style attribute in per cent."""
        parts = dict(part.split(":", 1) for part in self.attributes["style"].split(";") if part)
        return float(parts[name].rstrip("%"))


class Looker(HTMLParser):
    """Builds the tree. `faults` are tags that don't close."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root", {})
        self.faults: list[str] = []
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes <{self._open[-1].tag}>")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.words.append(data)


def look(html: str) -> Element:
    """The page; it must be well-formed."""
    looker = Looker()
    looker.feed(html)
    looker.close()
    assert looker.faults == []
    return looker.root

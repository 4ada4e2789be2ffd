"""A page of HTML as tests look at it: its elements, its data blocks, and what it must never hold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

VOID = {"meta", "input", "line", "path", "rect", "circle"}


class Page(HTMLParser):
    """The elements of a page as (tag, attributes), its text, and the content of its scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.scripts, self.styles, self._open = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attributes, data))
        elif tag == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def data(self, name):
        """The JSON of a data block."""
        (found,) = [text for attributes, text in self.scripts if attributes.get("id") == name]
        return json.loads(found)

    def ids(self, tag):
        return [attributes["id"] for t, attributes in self.elements if t == tag and "id" in attributes]

    @property
    def policy(self):
        """The content security policy, as a dict of lists."""
        (content,) = [
            a["content"]
            for t, a in self.elements
            if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
        ]
        return {words[0]: words[1:] for words in (part.split() for part in content.split(";"))}


def safe(page):
    """Assert that the page can run nothing but its own scripts, and asks for nothing from anywhere."""
    policy = page.policy
    assert policy["default-src"] == ["'none'"] and not re.search("unsafe|https?:", str(policy))
    for kind, texts in (
        ("style-src", page.styles),
        ("script-src", [t for a, t in page.scripts if a.get("type") is None]),
    ):
        hashes = [
            "'sha256-" + base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() + "'" for t in texts
        ]
        assert sorted(set(hashes)) == sorted(set(policy[kind]))
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (
            tag,
            attributes,
        )
        for name in ("src", "href", "action", "data", "srcset"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)

"""HTML for notebooks: whatever a text says, it is shown and not obeyed."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from coreplan.base import html


class Read(HTMLParser):
    """What a browser finds: the tags with their attributes, and the text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
def test_any_text_is_shown_word_for_word_and_is_no_markup(text):
    found = Read(html.table([(text, text)], (text, text), text))
    assert set(found.tags) == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert found.text == 5 * text


@given(st.text(alphabet="<>&\"'= abc"))
def test_an_attribute_cannot_be_left(text):
    found = Read(html.element("span", style=text))
    assert found.tags == ["span"] and found.attributes == [("style", text)]


def test_what_a_terminal_or_a_page_would_obey_is_written_out():
    assert html.escaped("a\x1b[31m\u202e<b>") == "a\\x1b[31m\\u202e&lt;b&gt;"


def test_html_is_kept_and_other_texts_become_paragraphs():
    found = html.block(html.table([("a", 1)]), "1 < 2", "")
    assert found.startswith("<div><table") and found.count("<p ") == 1 and "1 &lt; 2" in found


def test_a_fragment_brings_no_colours_that_a_dark_page_would_swallow():
    page = html.block(html.table([("a", 1)], ("x", "y"), "title"), "text")
    assert "background" not in page and page.count("color:") == page.count("color: inherit")


def test_a_light_is_a_word_besides_a_colour():
    for name in html.LIGHTS:
        assert Read(html.light(name)).text == f"\u25cf {name}"

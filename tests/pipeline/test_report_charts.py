"""A picture can be read whatever is in it."""

from __future__ import annotations

import warnings
from pathlib import Path

from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from covey.pipeline.report import COLOURS, LABEL_MAX, Report, Span, bars, compared, holdings, ranked


def drawn(figure: Figure, directory: Path) -> str:
    """Return a picture's SVG as it is on the page; any warning is an error."""
    report = Report("picture")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report.figure(figure, "it")
    report.write(directory / "page.html")
    return (directory / "page-1.svg").read_text()


def test_names_of_every_language_are_texts_for_the_browser(tmp_path: Path) -> None:
    names = ["\u6771\u4eac", "\u0437\u0430\u043a\u0430\u0437", "a\tb", "$5 & <b>"]
    svg = drawn(bars(names, [4, 3, 2, 1], "messages"), tmp_path)
    assert [
        name for name in (*names[:2], "a b", "$5 &amp; &lt;b&gt;") if f">{name}<" not in svg
    ] == []


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    svg = drawn(bars(["n" * 500, "m" * LABEL_MAX], [2, 1], "messages"), tmp_path)
    assert f">{'n' * (LABEL_MAX - 3)}...<" in svg
    assert f">{'m' * LABEL_MAX}<" in svg


def test_each_holder_has_a_colour_of_its_own(tmp_path: Path) -> None:
    svg = drawn(holdings([Span("a", 1, 0, 2), Span("a", 11, 2, 3)]), tmp_path)
    assert svg.count(">consumer 1<") == svg.count(">consumer 11<") == 1
    figure = holdings([Span("a", 1, 0, 2), Span("a", 11, 2, 3)])
    colours = [to_rgba_array(bar.get_facecolor()) for bar in figure.axes[0].collections]
    assert [tuple(colour[0]) for colour in colours] == [COLOURS[0], COLOURS[1]]


def test_of_many_holders_those_who_held_least_are_drawn_as_others(tmp_path: Path) -> None:
    spans = [Span("a", holder, holder, holder + holder / 100) for holder in range(1, 41)]
    svg = drawn(holdings(spans), tmp_path)
    named = [holder for holder in range(1, 41) if f">consumer {holder}<" in svg]
    assert named == list(range(41 - len(COLOURS), 41))
    assert f">{40 - len(COLOURS)} others<" in svg


def test_ranks_are_plain_numbers(tmp_path: Path) -> None:
    few = drawn(ranked([40, 30, 20, 15], -0.5, 1.6), tmp_path)
    assert ">1<" in few and ">3<" in few
    many = drawn(ranked([20_000 / rank for rank in range(1, 2001)], -1.0, 4.3), tmp_path)
    assert ">1,000<" in many and ">10,000<" in many
    assert "mathdefault" not in few + many


def test_a_panel_without_any_value_says_0(tmp_path: Path) -> None:
    figure = compared(["a", "b"], {"some": [1.0, 0.0], "none": [0.0, 0.0]})
    assert [list(axes.get_xlim()) for axes in figure.axes][1] == [0, 1]
    assert list(figure.axes[1].get_xticks()) == [0]
    drawn(figure, tmp_path)

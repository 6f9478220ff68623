"""A report is one file, and nothing in it is taken for markup."""

from __future__ import annotations

import warnings
from pathlib import Path

from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from covey.pipeline.report import COLOURS, LABEL_MAX, Report, Span, bars, compared, holdings, ranked


def page_of(report: Report, directory: Path) -> str:
    report.write(directory / "new", "page")
    return (directory / "new/page.html").read_text()


def test_every_value_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    report = Report(evil)
    report.heading(evil)
    report.text(evil)
    report.code(evil)
    report.verdict(evil, is_good=True)
    report.table((evil,), [(evil,)])
    report.figure(bars([evil, "$x"], [1, 2], evil), evil)
    page = page_of(report, tmp_path)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_a_page_asks_for_nothing_else(tmp_path: Path) -> None:
    report = Report("all pictures")
    report.figure(holdings([Span("a", 1, 0, 2), Span("b", 2, 1, 3)]), "held")
    report.figure(ranked([10.0, 5.0, 3.0], -1.0, 1.0), "ranked")
    report.figure(compared(["x", "y"], {"one": [1.0, 2.0], "two": [3.0, 4.0]}), "compared")
    page = page_of(report, tmp_path)
    assert page.count("<svg") == 3
    assert "src=" not in page
    assert "url(http" not in page


def test_a_page_fits_a_phone_and_goes_by_the_reader_s_choice_of_dark(tmp_path: Path) -> None:
    page = page_of(Report("small"), tmp_path)
    assert '<meta name="viewport" content="width=device-width">' in page
    assert "color-scheme: light dark" in page
    assert "@media (prefers-color-scheme: dark)" in page and "@media (max-width: 40rem)" in page


def test_numbers_are_short_and_large_ones_grouped(tmp_path: Path) -> None:
    report = Report("numbers")
    report.table(("a", "b", "c", "d"), [(1234567, 0.123456, 98765.4, None), (0.0, 2e-7, 1, 2)])
    page = page_of(report, tmp_path)
    assert ">1,234,567<" in page
    assert ">0.123<" in page
    assert ">98,765<" in page
    assert "<td></td>" in page
    assert ">0<" in page
    assert ">&lt; 0.001<" in page


def test_the_best_row_and_what_a_picture_shows_stand_out(tmp_path: Path) -> None:
    report = Report("best")
    report.table(("policy", "s"), [("a", 2), ("b", 1)], {"s": "seconds"}, "b")
    report.figure(bars(["a", "b"], [4, 2], "messages", 3.0), "said first")
    page = page_of(report, tmp_path)
    assert '<tr class="best"><td>b</td>' in page
    assert page.count('class="best"') == 1
    assert '<th class="number"><abbr title="seconds">s</abbr>' in page
    assert page.index("said first") < page.index("<svg")
    assert "an even part" in page


def test_a_text_too_long_for_its_column_is_seen_whole_when_pointed_at(tmp_path: Path) -> None:
    report = Report("long")
    report.table(("a",), [('"' * 50,), ("short",)])
    page = page_of(report, tmp_path)
    assert f'<td title="{"&quot;" * 50}">' in page
    assert "<td>short</td>" in page


def test_the_same_report_is_the_same_page(tmp_path: Path) -> None:
    pages = []
    for _ in range(2):
        report = Report("twice")
        report.figure(bars(["a"], [1], "x"), "picture")
        pages.append(page_of(report, tmp_path))
    assert pages[0] == pages[1]


# A picture can be read whatever is in it.


def drawn(figure: Figure, directory: Path) -> str:
    """Return a picture's SVG as it is on the page; any warning is an error."""
    report = Report("picture")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report.figure(figure, "it")
    report.write(directory, "page")
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

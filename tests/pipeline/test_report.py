"""A report is one file, and nothing in it is taken for markup."""

from __future__ import annotations

from pathlib import Path

from covey.pipeline.report import Report, Span, bars, compared, holdings, ranked


def page_of(report: Report, directory: Path) -> str:
    report.write(directory / "new" / "page.html")
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

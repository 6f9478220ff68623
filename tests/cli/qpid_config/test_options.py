"""The table of qpid-config's options on the page, tried row by row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from covey.cli.qpid_config.options import IDLE, idle, make_parser

PAGE: Final = Path(__file__).parents[3] / "docs" / "declaring.md"
ROW: Final = re.compile(r"^\| ((?:`-[^`]+`(?:, )?)+) \| (same|nothing|refused) \| (.*?) *\|$", re.M)
ROWS: Final = [(re.findall(r"`([^`]+)`", names), here, why)
               for names, here, why in ROW.findall(PAGE.read_text())]  # fmt: skip

# Those of Qpid C++'s qpid-config, in the order of its help.
THEIRS: Final = """
-t --timeout -r --recursive -b --broker -a --broker-addr --sasl-mechanism --sasl-service-name
--ssl-certificate --ssl-key --ha-admin --ignore-default --alternate-exchange --durable --replicate
--file-count --file-size --efp-partition-num --efp-pool-file-size --wcache-page-size
--wcache-num-pages --max-queue-size --max-queue-count --limit-policy --lvq-key --flow-stop-size
--flow-resume-size --flow-stop-count --flow-resume-count --group-header --shared-groups --argument
--start-replica --sequence --ive --force --force-if-not-empty --force-if-used -f --file
--show-property
""".split()
SWITCHES: Final = frozenset(
    "-r --recursive --ha-admin --ignore-default --durable --shared-groups --sequence --ive --force"
    " --force-if-not-empty --force-if-used".split()
)
VALUES: Final = {
    "--limit-policy": "ring-strict", "--replicate": "all", "--sasl-mechanism": "PLAIN",
    "--argument": "qpid.priorities=3",
}  # fmt: skip


def words(option: str) -> list[str]:
    return [option] if option in SWITCHES else [option, VALUES.get(option, "5")]


def test_the_page_has_every_option_of_qpid_config_once() -> None:
    assert [name for names, _, _ in ROWS for name in names] == THEIRS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][-1])
def test_an_option_does_what_its_row_says(
    row: tuple[list[str], str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    names, here, why = row
    for name in names:
        command = ["add", "queue", "q", *words(name)]
        if here == "refused":
            with pytest.raises(SystemExit) as ending:
                make_parser("").parse_intermixed_args(command)
            assert ending.value.code == 2
            assert f"{name}: {why}\n" in capsys.readouterr().err
        else:
            found = idle(make_parser("").parse_intermixed_args(command))
            assert found == ({} if here == "same" else {names[-1]: why})


def test_what_does_nothing_is_on_the_page_as_such() -> None:
    assert {names[-1] for names, here, _ in ROWS if here == "nothing"} == set(IDLE)

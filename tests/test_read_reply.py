"""docs/examples/read_reply.py: any reply, from a file or standard input."""

import io
import sys
from pathlib import Path

import pytest
from test_example import load

script = load(Path(__file__).parent.parent / "docs" / "examples" / "read_reply.py")

REPORTS = {
    "a value": (
        '<think>Hm.</think>{"title": "Tides"}',
        "title",
        0,
        ["code   None", "value  'Tides'", """text   '{"title": "Tides"}'"""],
    ),
    "a value of another task": (
        '{"queries": ["spring tide"]}',
        "queries",
        0,
        ["code   None", "value  ['spring tide']", """text   '{"queries": ["spring tide"]}'"""],
    ),
    "plain text, and what could drive a terminal": (
        "<think>Hm.</think>Marée\x1b[2J\r\n",
        "title",
        1,
        ["code   'OUTPUT_MISSING'", "value  None", "text   'Marée\\x1b[2J'"],
    ),
    "an empty file": ("", "title", 1, ["code   'OUTPUT_MISSING'", "value  None", "text   ''"]),
}


@pytest.mark.parametrize(("raw", "task", "status", "lines"), REPORTS.values(), ids=list(REPORTS))
def test_a_reply_is_reported(
    raw: str, task: str, status: int, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code, its value and its text, each on a line."""
    path = tmp_path / "reply.txt"
    path.write_bytes(raw.encode())
    assert script.main(["--reply", str(path), "--task", task]) == status
    assert capsys.readouterr().out.splitlines() == lines


def test_a_title_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """And printed to a console that has not all of its characters."""
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO('{"title": "Marée"}'.encode())))
    monkeypatch.setattr(sys, "stdout", console)
    assert script.main(["--reply", "-"]) == 0
    console.seek(0)
    assert "value  'Mar\\xe9e'" in console.read()


UNREADABLE = {
    "bytes that are not UTF-8": (b'{"title": "\xff"}', "reply.txt is not UTF-8: byte 11 is 0xff"),
    "a file that is not there": (None, "reply.txt: No such file or directory"),
}


@pytest.mark.parametrize(("data", "message"), UNREADABLE.values(), ids=list(UNREADABLE))
def test_without_a_text_there_is_nothing_to_report(
    data: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and the message says which byte it was, or what the system says."""
    path = tmp_path / "reply.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SystemExit) as caught:
        script.main(["--reply", str(path)])
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err

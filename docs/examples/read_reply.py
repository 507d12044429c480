"""Read one raw reply of a model, and print what sidecall makes of it: its code, its value and its text.

The reply is the message's content as it came, not the body of the server's answer around it.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import sidecall

PICKERS = {"title": sidecall.pick_title, "suggestions": sidecall.pick_suggestions, "queries": sidecall.pick_queries}
OUTPUT = """output, each as Python writes it, so that nothing in it is invisible:
  code   why there is no value; None where there is one
  value  what the task's picker took from the reply's object
  text   what is left without reasoning and marks; to be shown to a user after OUTPUT_MISSING alone

exit status: 0 with a value, 1 without one, 2 if there is no reply to read"""


def report(raw: str, task: str) -> dict[str, object]:
    """The code, the value and the text of a reply."""
    code, value = None, None
    try:
        value = sidecall.require_structured(raw, PICKERS[task])
    except sidecall.ValidationError as error:
        code = error.code
    return {"code": code, "value": value, "text": sidecall.answer_text(raw)}


def content(name: str) -> str:
    """A file's text. It is decoded strictly: a replaced byte would be another reply than the model's."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report, and give the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=OUTPUT, formatter_class=form)
    parser.add_argument("--reply", metavar="FILE", required=True, help="the raw reply, in UTF-8; - for standard input")
    parser.add_argument("--task", choices=PICKERS, default="title", help="the picker to read it with (%(default)s)")
    options = parser.parse_args(argv)
    try:
        raw = content(options.reply)
    except UnicodeDecodeError as error:
        parser.error(f"{options.reply} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}")
    except OSError as error:
        parser.error(f"cannot read {options.reply}: {error.strerror}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a narrow console must not make it fail
    found = report(raw, options.task)
    for name, value in found.items():
        print(f"{name:5}  {value!r}")
    return 0 if found["code"] is None else 1


if __name__ == "__main__":
    sys.exit(main())

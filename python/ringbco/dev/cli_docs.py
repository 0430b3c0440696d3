"""The reference of the command line, made of the same declarations as its help.

`python -m ringbco.dev.generate` writes it to docs/cli/, a page per command. It has no widths, colours or
values that depend on the machine, so it is the same wherever it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ringbco.cli import COMMANDS, load

_HEAD: Final = """\
# The command line

Generated from the help texts by `python -m ringbco.dev.generate`. In a terminal, `ringbco COMMAND --help`
shows the same; for `replay`, `compare` and `bound`, add `--help-all`.

```
ringbco [--version] COMMAND ...
```

"""
_TAIL: Final = """\
## What holds for every command

| status | meaning |
| --- | --- |
| 0 | done |
| 1 | the input is wrong: one line on stderr with the file, row, column, value and what was expected |
| 2 | wrong usage |
| 3 | a result failed its audit |
| 128 + signal | interrupted |

- On status 1 and 2 nothing is written. Files are written whole or not at all. An existing output is refused
  unless `--force` is given, which replaces only
  [what ringbco wrote](../reliability.md#what-is-replaced).
- Results go to stdout; notes, warnings, progress and errors to stderr. A terminal shows a progress bar;
  elsewhere long work prints a line every 30 s: progress, rate, expected end. `--quiet` prints only errors,
  `--json` one JSON document and nothing else.
- An option that takes one value is given once: a second `--policy` for `ringbco replay` is refused.
- A closed pipe (`ringbco ... | head -1`) changes neither the files nor the status.
- A TIME is 2.5d, 6h, 30min, 90s, 1-12:00:00, or a number of seconds. A RATE is 25Gb/s (bits), 100GB/s
  (bytes), or a number of bytes/s. Cluster files, sweeps and Python take the same texts.
- `NO_COLOR=1` turns colours off; tables fit the terminal's width, or `COLUMNS`, or 80 columns.
- `ringbco --version` also shows the build and the platform: add it to bug reports.
- `RINGBCO_DEBUG=1` shows the traceback of an unexpected error.

## Completion

`ringbco --install-completion` sets up completion of commands and options for bash, zsh, fish or PowerShell,
whichever it runs in; `ringbco --show-completion` prints the script.
"""
_KINDS: Final = {int: "N", float: "NUMBER", str: "TEXT"}
_LARGEST: Final = "replay"
_FEW: Final = 10
_OWN_NAMES: Final = {"help", "install_completion", "show_completion"}


def pages() -> dict[str, str]:
    """Every page by its name: `index`, then the commands in the order of `ringbco --help`."""
    return {"index": "".join((_HEAD, *_contents(), _TAIL)), **{name: _page(name) for name in COMMANDS}}


def _contents() -> Iterator[str]:
    yield "| command | |\n| --- | --- |\n"
    for name, summary in COMMANDS.items():
        yield f"| [{name}]({name}.md) | {summary} |\n"
    yield "\n"


def _page(name: str) -> str:
    command = load(name)
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    parameters = [one for one in shown if one.name not in _OWN_NAMES]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    paragraphs = (command.help or "").strip().split("\n\n")
    text = [paragraph for paragraph in paragraphs if not paragraph.startswith("Example: ")]
    examples = [paragraph.removeprefix("Example: ") for paragraph in paragraphs if paragraph not in text]
    lines = [f"# ringbco {name}", "", "```", _usage(name, arguments, options), "```", ""]
    for paragraph in text:
        lines += [plain(paragraph), ""]
    shared = _shared(name, options)
    for title, rows in _tables(arguments, [option for option in options if option not in shared]):
        lines += [f"| {title} | |", "| --- | --- |", *rows, ""]
    if shared:
        names = ", ".join(f"`{option.opts[0]}`" for option in shared)
        lines += [f"These options are those of [`{_LARGEST}`]({_LARGEST}.md): {names}.", ""]
    if examples:
        lines += ["For example:", "", "```", *examples, "```", ""]
    lines.append("[What holds for every command](index.md#what-holds-for-every-command)")
    return "\n".join(lines) + "\n"


def _shared(name: str, options: Sequence[Any]) -> list[Any]:
    """Options of a command that the page of the largest one has in the same words, if they are many."""
    if name == _LARGEST:
        return []
    there = {(option.opts[0], _described(option)) for option in load(_LARGEST).params}
    found = [option for option in options if (option.opts[0], _described(option)) in there]
    return found if len(found) > _FEW else []


def _usage(name: str, arguments: Sequence[Any], options: Sequence[Any]) -> str:
    words = [_value(argument) if argument.required else f"[{_value(argument)}]" for argument in arguments]
    words += [_name(option, brief=True) for option in options if option.required]
    if any(not option.required for option in options):
        words.append("[OPTIONS]")
    return " ".join(("ringbco", name, *words))


def _tables(arguments: Sequence[Any], options: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """The arguments, then the options of each panel of the help."""
    if arguments:
        rows = [f"| `{_cell(_value(argument))}` | {_described(argument)} |" for argument in arguments]
        yield "argument", rows
    panels: dict[str, list[str]] = {}
    for option in options:
        panel = getattr(option, "rich_help_panel", None) or "Options"
        panels.setdefault(panel, []).append(f"| `{_cell(_name(option))}` | {_described(option)} |")
    yield from panels.items()


def _name(option: Any, *, brief: bool = False) -> str:
    """As it is typed: --out, -o DIR, or in brief --out DIR."""
    opts = sorted(option.opts, key=lambda name: not name.startswith("--"))
    names = ", ".join(opts[:1] if brief else opts)
    if option.secondary_opts:
        names += f" / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(parameter: Any) -> str:
    """What stands for the value: the metavar or, without one, what the default shows that is wanted."""
    return str(parameter.metavar or _KINDS.get(type(parameter.default), "NUMBER"))


def _described(parameter: Any) -> str:
    """The help, then what holds where the option is not given, unless the help says so."""
    text = plain(parameter.help or "")
    default = parameter.default
    if getattr(parameter, "required", False):
        return f"{text} Required." if parameter.param_type_name == "option" else text
    tells = getattr(parameter, "show_default", True) and not getattr(parameter, "is_flag", False)
    if tells and default is not None and default != [] and "Default" not in text:
        text += f" Default: {default}."
    return text


def plain(text: str) -> str:
    """Text as Markdown that shows it as it is."""
    return _cell(" ".join(text.split())).replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

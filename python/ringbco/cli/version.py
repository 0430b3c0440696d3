"""What `ringbco --version` tells: this build, and what it runs on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Final

# Those that decide what is computed or drawn.
_PACKAGES: Final = ("numpy", "polars", "pyarrow", "altair", "vl-convert-python", "typer")


def version_text() -> str:
    """The version on the first line; then the build, Python and the packages, for reports of faults."""
    lines = [f"ringbco {version('ringbco')}", f"built    {_build()}"]
    lines.append(f"Python   {platform.python_version()} ({platform.python_implementation()})")
    lines.append(f"system   {platform.system()} {platform.release()} on {platform.machine()}")
    lines.append(f"packages {', '.join(f'{name} {_version(name)}' for name in _PACKAGES)}")
    return "\n".join(lines)


def _build() -> str:
    """The wheel's tag, which names the Python interface and the platform; what made it, and its engine."""
    from ringbco import _core

    rustc, target, profile = _core.build()
    facts = dict(
        line.split(": ", 1)
        for line in (distribution("ringbco").read_text("WHEEL") or "").splitlines()
        if ": " in line
    )
    wheel = f"{facts.get('Tag', 'unknown')} by {facts.get('Generator', 'unknown')}"
    return f"{wheel}; engine by {rustc} for {target}, {profile}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"

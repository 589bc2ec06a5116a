"""Keys of model APIs: an upstream's rule in, its key out; from the environment or a private file, never from the TOML."""

from __future__ import annotations

import os
from pathlib import Path

from palestra.rules.competition import Upstream
from palestra.rules.errors import Broken


def read_key(rule: Upstream, folder: Path) -> str:
    """The upstream's key, empty where it needs none; `folder` is where relative paths begin."""
    if rule.key_env:
        key = os.environ.get(rule.key_env, "")
        if not key:
            said = f"the environment has no {rule.key_env}; set it where `palestra run` is called"
            raise Broken(f"upstreams.{rule.name}.key_env: {said}", retry=False)
        return key
    return _read_file(f"upstreams.{rule.name}.key_file", folder / rule.key_file) if rule.key_file else ""


def _read_file(field: str, path: Path) -> str:
    """A file that only its owner can read."""
    try:
        if path.stat().st_mode & 0o077:
            raise Broken(f"{field}: others can read {path}; run: chmod 600 {path}", retry=False)
        key = path.read_text().strip()
    except FileNotFoundError:
        raise Broken(f"{field}: {path} isn't there", retry=False) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Broken(f"{field}: {path} can't be read: {error}", retry=False) from None
    if not key:
        raise Broken(f"{field}: {path} is empty", retry=False)
    return key

"""YAML that a person wrote, read strictly: one mapping, in UTF-8, no key twice; else a sentence with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gemmsim.errors import GemmsimError


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds. Raises GemmsimError where it holds none, is no UTF-8 or repeats a key."""
    try:
        tree = yaml.load(path.read_bytes().decode("utf-8-sig"), _Loader)
    except FileNotFoundError:
        raise GemmsimError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise GemmsimError(f"{path}: expected UTF-8 text, found other bytes at position {error.start}") from None
    except OSError as error:
        raise GemmsimError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise GemmsimError(_yaml_sentence(path, error)) from None
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:  # PyYAML's, on a bad scalar
        raise GemmsimError(f"{path}: no valid YAML: {(str(error).splitlines() or ['a bad value'])[0]}") from None
    if not isinstance(tree, dict):
        found = "an empty file" if tree is None else f"a {type(tree).__name__}"
        raise GemmsimError(f"{path}: expected a mapping of keys, found {found}")
    return tree


def yaml_line(line: str) -> dict[str, Any]:
    """The mapping that one line holds; empty where it holds no list of texts under one key."""
    try:
        tree = yaml.load(line, _Loader)
    except yaml.YAMLError:
        return {}
    whole = isinstance(tree, dict) and all(
        isinstance(v, list) and all(isinstance(x, str) for x in v) for v in tree.values()
    )
    return tree if whole else {}


class _Twice(yaml.MarkedYAMLError):
    """A key that a mapping has already."""


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, which would keep the last of two equal keys, made to refuse the second."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key.value, str) else False:
                raise _Twice(problem=f"key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _yaml_sentence(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = f"{path}:{mark.line + 1}" if mark else str(path)
    return f"{place}: {'' if isinstance(error, _Twice) else 'not valid YAML: '}{problem}"

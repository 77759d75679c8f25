"""Every kind of study, and how a study is found and opened."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gemmsim.errors import GemmsimError, unknown
from gemmsim.paths import data_folder
from gemmsim.study.base import Study
from gemmsim.study.document import Document, checked, show
from gemmsim.yamlfile import read_yaml

if TYPE_CHECKING:
    from gemmsim.study.picks import PicksStudy

#: kind, as a study's file has it -> what it asks. The kind is also the name of its module here and in gemmsim.report:
#: here `Document` (what its file may hold) and `read` (document -> Study), there `plan` and `report`
KINDS: Mapping[str, str] = {
    "picks": "the fastest predicted tiles of a workload's GEMMs on some GPUs",
    "search": "recorded curves of searches: which sampler needs how many trials",
    "raster": "one kernel in several raster orders, counted, timed, simulated and predicted",
    "evidence": "every recorded row of some GPUs beside its prediction: errors, and what the model's picks lose",
    "ablation": "what each effect of the model buys: errors of recorded rows with it costing nothing",
    "heatmap": "the best predicted and measured time over a plane of two parameters, such as bm and bn",
    "padding": "what padded sizes are predicted to gain, and time against a size",
    "sweep": "curves against one of M, N and K: waves and their edges, decode, split-K",
    "ladder": "stages of a kernel from the first to the last, timed in turn with the library, and predicted",
    "comparison": "GPUs against one another by their hardware files: time, why, what if, what the time hangs on",
}
DEFAULT_KIND = "picks"


def study_names() -> list[str]:
    """Studies that ship with gemmsim."""
    return sorted(path.stem for path in data_folder("studies").glob("*.yaml"))


def find_study(name_or_path: str) -> Path:
    """The file of a shipped study's name, or the path as it is. Raises GemmsimError for an unknown name."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path or "\\" in name_or_path:
        return Path(name_or_path)
    if name_or_path not in study_names():
        raise unknown("study", name_or_path, study_names())
    return data_folder("studies") / f"{name_or_path}.yaml"


def open_study(name_or_path: str) -> Study:
    """Read and check a study of any kind. Raises GemmsimError: file, key, what was found, what was expected."""
    path, kind, document = _document(name_or_path)
    try:
        study: Study = kind.read(path, document)
    except GemmsimError as error:
        sentence = str(error)
        raise GemmsimError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None
    return study


def study_document(name_or_path: str) -> Document:
    """What a study's file says, without the files that it names. Raises GemmsimError as `open_study` does."""
    return _document(name_or_path)[2]


def _document(name_or_path: str) -> tuple[Path, ModuleType, Document]:
    path = find_study(name_or_path)
    tree = read_yaml(path)
    kind = import_module(f"gemmsim.study.{_kind(path, tree)}")
    return path, kind, checked(path, tree, kind.Document)


def load_picks(name_or_path: str) -> PicksStudy:
    """Read and check a study of picks. Raises GemmsimError for one of another kind too."""
    from gemmsim.study.picks import PicksStudy

    study = open_study(name_or_path)
    if not isinstance(study, PicksStudy):
        raise GemmsimError(f"{study.path}: kind is {study.kind}: expected a study of picks")
    return study


def _kind(path: Path, tree: Any) -> str:
    kind = tree.get("kind", DEFAULT_KIND) if isinstance(tree, dict) else DEFAULT_KIND
    if not isinstance(kind, str) or kind not in KINDS:
        raise GemmsimError(f"{path}: kind is {show(kind)}: expected {', '.join(KINDS)}")
    return kind

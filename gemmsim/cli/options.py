"""What predict, rank and explain are asked with: shared options, M N K, a tile, parameters under the field's names."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from gemmsim import families
from gemmsim.cli.apart import check_apart
from gemmsim.conditions import DEFAULT_L2, L2_CONDITIONS, l2_condition
from gemmsim.config import _SHORT
from gemmsim.errors import GemmsimError, unknown
from gemmsim.problem import DTYPE_BYTES, EPILOGUES, LAYOUTS, MAX_DIMENSION, Form, dtype_name

if TYPE_CHECKING:
    from gemmsim.model.predict import Prediction

_F = TypeVar("_F", bound=Callable[..., Any])
#: names of Triton and CUTLASS -> the field's
PARAMETER_ALIASES: Mapping[str, str] = {
    "block_size_m": "bm", "block_size_n": "bn", "block_size_k": "bk", "block_m": "bm", "block_n": "bn", "block_k": "bk",
    "cta_m": "bm", "cta_n": "bn", "cta_k": "bk", "tile_m": "bm", "tile_n": "bn", "tile_k": "bk",
    "group_size_m": "group_m", "stages": "num_stages", "warps": "num_warps",
    "split_k_slices": "split_k", "thread_m": "tm", "thread_n": "tn",
}  # fmt: skip
TILE = ("bm", "bn", "bk")
#: settings of every command
HELP = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    """A command to which `-5` is a wrong number, not an unknown option; its help ends with what -p, --without take."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": HELP, **settings})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each family's parameters with their defaults, and the effects, below the options that name them."""
        options = {option.name for option in self.params}
        if "parameters" in options:
            with formatter.section("Parameters for -p and their defaults"):
                formatter.write_dl([(name, _defaults(name)) for name in families.FAMILIES])
        if "without" in options:
            from gemmsim.model.demand import TERMS

            with formatter.section("Effects for --without"):
                formatter.write_text(", ".join(TERMS))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse. Raises GemmsimError for a negative number where M, N or K stands."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            negative = [a for a in given if re.fullmatch(r"-[0-9.][0-9.eE]*", a)]
            if negative and error.option_name.lstrip("-")[:1] in "0123456789.":
                raise _no_dimension("M N K", negative[0]) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, where no file is read and written. Raises GemmsimError where one is."""
        check_apart(ctx)
        return super().invoke(ctx)


def whole(low: int, high: int) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """A callback for an option with a whole number from low to high, refused as every other value is."""
    return lambda ctx, option, text: number_option(option.opts[-1], text, low, high)


def _defaults(family: str) -> str:
    return " ".join(f"{p.name}={p.default}" for p in families.family(family).PARAMETERS)


def problem_argument(command: _F) -> _F:
    """The argument M N K (parameter `mnk`)."""
    return click.argument("mnk", nargs=-1, metavar="M N K")(command)


def model_options(command: _F) -> _F:
    """Options of every prediction: those of where it runs, and without."""
    free = click.option("--without", metavar="X", multiple=True, help="Let this effect cost nothing; repeatable.")
    return place_options(free(command))


def place_options(command: _F) -> _F:
    """Which kernel runs where, by which coefficients: gpu, dtype, family, l2, calibration, num_sms."""
    for option in reversed(
        (
            click.option("--gpu", metavar="G", help="Name (h200_sxm), device string, or file (./mychip.yaml)."),
            click.option("--dtype", metavar="T", help=f"{', '.join(DTYPE_BYTES)}.  [default: the family's first]"),
            click.option("--family", metavar="F", help=f"{', '.join(families.FAMILIES)}; in rank and pad all, too.  "
                "[default: the dtype's first; in rank all, in split the first that shares tiles out along K]"),
            click.option(
                "--l2", metavar="C", help=f"What the L2 holds at the start: {', '.join(L2_CONDITIONS)}.  "
                f"[default: {DEFAULT_L2}]",
            ),
            click.option(
                "--calibration", metavar="FILE|none", default="auto",
                help="Fitted coefficients.  [default: those shipped for the GPU and family, if any]",
            ),
            click.option("--num-sms", metavar="N", help="Use this many of the GPU's SMs.  [default: all]"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def required_gpu(gpu: str | None) -> str:
    """The value of --gpu. Raises GemmsimError if it was not given."""
    if gpu is None:
        raise GemmsimError("--gpu is missing: expected a GPU's name or file (gemmsim specs list shows the names)")
    return gpu


def rows_options(command: _F, *, required: bool = True) -> _F:
    """Measured rows and what they do not say themselves: rows, gpu, family, dtype, l2."""
    unsaid = {"gpu": ("G", "GPU"), "family": ("F", "family"), "dtype": ("T", "dtype"), "l2": ("C", "L2 condition")}
    for name, (metavar, what) in reversed(unsaid.items()):
        command = click.option(f"--{name}", metavar=metavar, help=f"The {what}, where the rows do not say.")(command)
    return click.option(
        "--rows", metavar="FILE", multiple=True, required=required, help="CSV of measured rows; repeatable."
    )(command)


def form_options(command: _F) -> _F:
    """Options of what is multiplied beside its size; the command gets them as `shape`, a Form without its dtype."""

    @functools.wraps(command)
    def collected(
        *, dtype_b: str | None, layout: str, batch_size: str | None, beta: bool, epilogue: str, **rest: Any
    ) -> Any:
        return command(shape=form(dtype_b, layout, batch_size, beta, epilogue), **rest)

    wrapped = cast(_F, collected)
    for option in reversed(
        (
            click.option("--dtype-b", metavar="T", help="Type of B in memory, if narrower (quantized weights)."),
            click.option("--layout", metavar="XY", default="NN", show_default=True,
                         help=f"A then B, N row-major, T transposed: {', '.join(LAYOUTS)}."),
            click.option("--batch-size", metavar="N", help="So many equal problems in one launch.  [default: 1]"),
            click.option("--beta", is_flag=True, help="C is read and added."),
            click.option("--epilogue", metavar="X,...", default="",
                         help=f"What follows in registers, in order: {', '.join(EPILOGUES)}."),
        )
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


def form(dtype_b: str | None, layout: str, batch_size: str | None, beta: bool, epilogue: str) -> Form:
    """The Form that the options say, its dtype aside. Raises GemmsimError naming the option whose value is none."""
    steps = epilogue_steps(epilogue, "--epilogue")
    return Form(dtype_b=said_dtype(dtype_b, "--dtype-b"), layout=said_layout(layout, "--layout"), beta=beta,
                epilogue=steps, batch=number_option("--batch-size", batch_size, 1, MAX_DIMENSION) or 1)  # fmt: skip


def epilogue_steps(text: str, where: str) -> tuple[str, ...]:
    """The steps of an epilogue, as `bias,gelu`. Raises GemmsimError for an unknown one."""
    steps = tuple(text.split(",")) if text else ()
    for step in steps:
        if step not in EPILOGUES:
            raise unknown("epilogue", step, EPILOGUES, where=where)
    return steps


def configuration_options(command: _F) -> _F:
    """Options that say one configuration: tile, parameters."""
    parameters = click.option(
        "-p", "parameters", metavar="NAME=VALUE", multiple=True,
        help="A parameter of the family, also under Triton's or CUTLASS' name; repeatable.  [default: the family's]",
    )  # fmt: skip
    tile = click.option(
        "--tile", metavar="BMxBNxBK", help="Block tile, 128x128x64, or a whole configuration as rank prints it."
    )
    return tile(parameters(command))


def dimensions(mnk: Sequence[str]) -> tuple[int, int, int]:
    """M, N and K from the command line. Raises GemmsimError for another count or what is no size."""
    if len(mnk) != 3:
        raise GemmsimError(f"M N K: found {len(mnk)} values{_listed(mnk)}, expected three whole numbers")
    m, n, k = (_dimension(name, text) for name, text in zip("MNK", mnk, strict=True))
    return m, n, k


def _listed(values: Sequence[str]) -> str:
    return f" ({' '.join(values)})" if values else ""


def _dimension(name: str, text: str) -> int:
    value = whole_number(text)
    if value is None or not 1 <= value <= MAX_DIMENSION:
        raise _no_dimension(name, text)
    return value


def _no_dimension(name: str, text: str) -> GemmsimError:
    return GemmsimError(f"{name} is {text!r}: expected a whole number from 1 to {MAX_DIMENSION}")


def whole_number(text: str) -> int | None:
    """The number if the text is one in plain digits, else None; 4,000 digits are more than any limit."""
    return int(text[:30]) if re.fullmatch(r"[+-]?[0-9]+", text) else None


def number_option(option: str, text: str | None, low: int, high: int, meaning: str = "") -> int | None:
    """A whole number given to an option. Raises GemmsimError outside low to high."""
    if text is None:
        return None
    value = whole_number(text)
    if value is None or not low <= value <= high:
        raise GemmsimError(f"{option} is {text!r}: expected a whole number from {low} to {high}{meaning}")
    return value


def real_option(option: str, text: str, low: float, high: float) -> float:
    """A number given to an option. Raises GemmsimError for what is none, and outside low to high."""
    with contextlib.suppress(ValueError):
        value = float(text) if text.isascii() and "_" not in text else float("nan")
        if low <= value <= high:
            return value
    raise GemmsimError(f"{option} is {text!r}: expected a number from {low:g} to {high:g}")


def family_and_dtype(
    family: str | None, dtype: str | None, *, gpu: str | None = None, family_at: str = "--family",
    dtype_at: str = "--dtype",
) -> tuple[str, str]:  # fmt: skip
    """Both names, from either: a family's first dtype that the GPU has, a dtype's first family.

    Raises GemmsimError for an odd pair.
    """
    name = said_dtype(dtype, dtype_at)
    if name is None and gpu is not None:
        name = _first_dtype(family, gpu)
    if family is None:
        family = "triton" if name is None else _family_for(name, dtype_at)
    have = families.family(family, where=family_at).DTYPES
    if name is not None and name not in have:
        others = families.would_do(families.families_for(name))
        raise GemmsimError(f"{dtype_at} is {dtype!r}: family {family} has {', '.join(have)}{others}")
    return family, name or have[0]


def _first_dtype(family: str | None, gpu: str) -> str | None:
    """The first dtype that the family (or any, in their order) and the GPU both have; None if there is none."""
    from gemmsim.hardware import load_gpu

    rates = load_gpu(gpu).arch.fma_per_clk_per_sm
    asked = families.FAMILIES if family is None else [f for f in families.FAMILIES if f == family]
    return next((dtype for f in asked for dtype in families.family(f).DTYPES if dtype in rates), None)


def said_layout(text: str, where: str) -> str:
    """A layout. Raises GemmsimError for an unknown one."""
    if text.upper() not in LAYOUTS:
        raise unknown("layout", text, LAYOUTS, where=where)
    return text.upper()


def said_dtype(text: str | None, where: str) -> str | None:
    """A dtype's canonical name. Raises GemmsimError for an unknown one."""
    try:
        return None if text is None else dtype_name(text)
    except GemmsimError:
        raise unknown("dtype", str(text), DTYPE_BYTES, where=where) from None


def _family_for(dtype: str, where: str) -> str:
    have = families.families_for(dtype)
    if not have:
        all_ = "; ".join(f"{f} has {', '.join(families.family(f).DTYPES)}" for f in families.FAMILIES)
        raise GemmsimError(f"{where} is {dtype!r}: no family has a kernel for it ({all_})")
    return have[0]


def condition(text: str | None) -> str:
    """The L2 condition asked for, or the default. Raises GemmsimError for an unknown one."""
    return DEFAULT_L2 if text is None else l2_condition(text, where="--l2")


def known_effects(without: Sequence[str]) -> tuple[str, ...]:
    """The effects to leave out. Raises GemmsimError for an unknown one."""
    from gemmsim.model.demand import TERMS

    for name in without:
        if name not in TERMS:
            raise unknown("effect", name, TERMS, where="--without")
    return tuple(without)


def parameter_name(text: str, known: Collection[str] = ()) -> str:
    """The field's name of a parameter, from whichever is given; what is known as it stands is left."""
    name = text.lower()
    return name if name in known else PARAMETER_ALIASES.get(name, name)


def refuse_beside(given: Mapping[str, str | None], beside: str, why: str) -> None:
    """Raise GemmsimError for an option (its name -> its value) given beside one that leaves no room for it."""
    for option, value in given.items():
        if value:
            raise GemmsimError(f"{option} {value} is given with {beside}: {why}")


def refuse_beside_batch(given: Mapping[str, str | None], batch: str) -> None:
    """Raise GemmsimError for an option whose value belongs into the CSV, and for a number in place of a CSV."""
    if not batch:
        raise GemmsimError("--batch is '': expected the name of a CSV")
    if batch.isdigit():
        raise GemmsimError(
            f"--batch {batch}: expected the name of a CSV; so many equal problems are --batch-size {batch}"
        )
    refuse_beside(given, "--batch", f"expected it as columns of {batch}")


def configuration_given(tile: str | None, parameters: Sequence[str]) -> dict[str, str | None]:
    """What configuration_options were given, for refuse_beside."""
    return {"--tile": tile, "-p": " ".join(parameters)}


def configuration(family: str, tile: str | None, parameters: Sequence[str]) -> dict[str, int]:
    """Every parameter of the family: from --tile, from -p, or its default. Raises GemmsimError for a wrong one."""
    defaults = {p.name: p.default for p in families.family(family).PARAMETERS}
    return defaults | parameters_given(family, tile, parameters)


def parameters_given(family: str, tile: str | None, parameters: Sequence[str]) -> dict[str, int]:
    """The parameters that --tile and -p say. Raises GemmsimError for a wrong one."""
    parameters_of = {p.name: p for p in families.family(family).PARAMETERS}
    known = {name: p.default for name, p in parameters_of.items()}
    given: dict[str, int] = {} if tile is None else _tile(family, tile, list(known))
    for text in parameters:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = list(known.items())[-1]  # type: ignore[assignment]
            raise GemmsimError(f"-p is {text!r}: expected NAME=VALUE, such as {name}={value}")
        name = parameter_name(name.strip(), known)
        if name not in known:
            raise unknown(f"parameter of family {family}", name, known, where="-p")
        if name in given:
            raise GemmsimError(f"-p {text}: {name} is given twice, expected it once in --tile and -p together")
        given[name] = _value(f"-p {name}", value.strip(), families.least(parameters_of[name]))
    return given


def _value(where: str, text: str, low: int = 1) -> int:
    value = whole_number(text)
    if value is None or not low <= value <= MAX_DIMENSION:
        raise GemmsimError(f"{where} is {text!r}: expected a whole number from {low} to {MAX_DIMENSION}")
    return value


def _tile(family: str, text: str, known: Sequence[str]) -> dict[str, int]:
    """128x128x64, or all of a configuration: 128x128x64_w8s3g8 (what gemmsim.config.config_key writes)."""
    sizes, _, rest = text.partition("_")
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})x(\d{1,9})", sizes)
    names = {_SHORT.get(p, p): p for p in known if p not in TILE}
    letters = "|".join(sorted(names, key=len, reverse=True))
    pairs = re.findall(rf"({letters})(\d{{1,9}})", rest)
    spelled = "".join(f"{name}{value}" for name, value in pairs)
    if not match or spelled != rest or len(dict(pairs)) != len(pairs):
        example = f"128x128x64 or {family}'s whole configuration as gemmsim rank prints it"
        raise GemmsimError(f"--tile is {text!r}: expected {example}")
    numbers = dict(zip(TILE, map(str, match.groups()), strict=True)) | {names[n]: v for n, v in pairs}
    return {
        name: _value(f"--tile {text}: {name}", value, 0 if name not in TILE else 1) for name, value in numbers.items()
    }


def one_launch(
    mnk: Sequence[str], tile: str | None, parameters: Sequence[str], gpu: str | None, dtype: str | None,
    family: str | None, l2: str | None, calibration: str, num_sms: str | None, shape: Form,
) -> Prediction:  # fmt: skip
    """The prediction of the one configuration that is asked for. Raises GemmsimError where it cannot launch."""
    m, n, k = dimensions(mnk)
    sms = number_option("--num-sms", num_sms, 1, 2**31 - 1)
    gpu = required_gpu(gpu)
    name, kind = family_and_dtype(family, dtype, gpu=gpu)
    config = configuration(name, tile, parameters)
    from gemmsim.explanation import check_feasible
    from gemmsim.model.predict import predict

    found = predict(m, n, k, gpu=gpu, dtype=replace(shape, dtype=kind), family=name, config=config, l2=condition(l2),
                    calibrated=calibration, num_sms=sms)  # fmt: skip
    check_feasible(found)
    return found

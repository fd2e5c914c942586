"""Vector instructions for the compiled loops: small tiles of a matrix product held in registers.

The loops that numba writes by itself store and load every partial sum. Here the sums of a tile, some
rows times some vectors of `LANES` numbers, stay in registers: LLVM's own vector types say so directly,
on any processor (one with shorter registers gets several for each vector). Every function takes
C-contiguous arrays, of float32 unless said otherwise, and places in them as element offsets.

numba's cache of compiled loops does not notice changes of this file: after one, delete
`engines/__pycache__/*.nb?`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

intrinsic: Any = numba_intrinsic  # it hides the first argument, which type checkers cannot know

LANES = 16
TILE = 2 * LANES  # columns of a tile
PANEL = 4 * LANES  # columns of a tile of bounds: one 64-bit mask
ROWS, FILTERS = 4, 3  # rows of a tile

_FLOAT, _INT, _INDEX = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INTEGERS = ir.VectorType(_INDEX, LANES)
_SHORTS = ir.VectorType(ir.IntType(16), 2 * LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
_WIDE = PANEL // LANES


@intrinsic
def product_tile(typing, rows, r0, r_stride, columns, c0, depth, out, o0, o_stride):  # type: ignore[no-untyped-def]
    """ROWS x TILE numbers of `rows @ columns`; `columns` holds `depth` rows of just the tile's width."""
    i = types.int64
    signature = types.void(rows, i, i, columns, i, i, out, i, i)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows, _, _, columns, _, _, out, _, _ = _pointers(context, builder, signature, args)
        _, r0, r_stride, _, c0, depth, _, o0, o_stride = args
        some = [_place(builder, rows, r0, r_stride, r) for r in range(ROWS)]
        results = [_place(builder, out, o0, o_stride, r) for r in range(ROWS)]
        columns = builder.gep(columns, [c0])
        _tile(builder, some, depth, columns, lambda index: builder.mul(index, _INT(TILE)), results)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def convolution_tile(typing, image, i0, taps, filters, f0, n_taps, out, o0, o_stride):  # type: ignore[no-untyped-def]
    """FILTERS filters at TILE neighbouring positions: sums over the taps of weight times pixel.

    `taps` are the offsets of a filter's taps from its first, `filters` has one row for each filter.
    """
    i = types.int64
    signature = types.void(image, i, taps, filters, i, i, out, i, i)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        image, _, taps, filters, _, _, out, _, _ = _pointers(context, builder, signature, args)
        _, i0, _, _, f0, n_taps, _, o0, o_stride = args
        some = [_place(builder, filters, f0, n_taps, f) for f in range(FILTERS)]
        results = [_place(builder, out, o0, o_stride, f) for f in range(FILTERS)]
        pixels = builder.gep(image, [i0])
        _tile(builder, some, n_taps, pixels, lambda tap: builder.load(builder.gep(taps, [tap])), results)
        return context.get_dummy_value()

    return signature, generate


def _tile(
    builder: Any,
    rows: list[Any],
    depth: Any,
    columns: Any,
    offset: Callable[[Any], Any],
    results: list[Any],
) -> None:
    """results[r] = sum over i < depth of rows[r][i] times the TILE numbers at columns + offset(i)."""
    with _Loop(builder, depth, 1, [_ZERO] * 2 * len(rows)) as loop:
        start = offset(loop.index)
        vectors = [_load(builder, columns, start, _VECTOR, v) for v in range(2)]
        for r, row in enumerate(rows):
            number = builder.load(builder.gep(row, [loop.index]))
            factor = _repeated(builder, number, _VECTOR)
            for v in range(2):
                loop.add(2 * r + v, factor, vectors[v])
    for r, result in enumerate(results):
        for v in range(2):
            _store(builder, loop.sums[2 * r + v], result, v)


@intrinsic
def panel_tops(typing, rows, row, depth, panels, biases, panel, tops, stride):  # type: ignore[no-untyped-def]
    """The largest of bias + rows @ panel, for ROWS rows from `row` on; a panel is PANEL columns wide.

    Rows and panels of int16, in a panel two after the other for each column; biases of int32.
    """
    i = types.int64
    signature = types.void(rows, i, i, panels, biases, i, tops, i)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows, _, _, panels, biases, _, tops, _ = _pointers(context, builder, signature, args)
        _, row, depth, _, _, panel, _, stride = args
        some = [_place(builder, rows, builder.mul(row, depth), depth, r) for r in range(ROWS)]
        sums = _panel(builder, some, depth, panels, biases, panel)
        start = builder.add(builder.mul(row, stride), panel)
        for r, top in enumerate(_tops(builder, sums)):
            builder.store(top, _place(builder, tops, start, stride, r))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def panel_bounds(typing, rows, row, depth, panels, biases, panel, out, at):  # type: ignore[no-untyped-def]
    """bias + row @ panel for one row, PANEL numbers (see `panel_tops`)."""
    i = types.int64
    signature = types.void(rows, i, i, panels, biases, i, out, i)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows, _, _, panels, biases, _, out, _ = _pointers(context, builder, signature, args)
        _, row, depth, _, _, panel, _, at = args
        first = builder.gep(rows, [builder.mul(row, depth)])
        (sums,) = _panel(builder, [first], depth, panels, biases, panel)
        target = builder.gep(out, [at])
        for v, vector in enumerate(sums):
            _store(builder, builder.sitofp(vector, _VECTOR), target, v)
        return context.get_dummy_value()

    return signature, generate


def _panel(
    builder: Any, rows: list[Any], depth: Any, panels: Any, biases: Any, panel: Any
) -> list[list[Any]]:
    """Vectors of bias + row @ panel for each row, whole numbers."""
    at = builder.mul(panel, _INT(PANEL))
    columns = builder.gep(panels, [builder.mul(at, depth)])
    bias = builder.gep(biases, [at])
    first = [_load(builder, bias, _INT(0), _INTEGERS, v) for v in range(_WIDE)]
    with _Loop(builder, depth, 2, first * len(rows)) as loop:
        start = builder.mul(loop.index, _INT(PANEL))
        vectors = [_load(builder, columns, start, _SHORTS, v) for v in range(_WIDE)]
        for r, row in enumerate(rows):
            place = builder.gep(row, [loop.index])
            pair = builder.load(builder.bitcast(place, _INDEX.as_pointer()))
            pair.align = 2
            factor = builder.bitcast(_repeated(builder, pair, _INTEGERS), _SHORTS)
            for v in range(_WIDE):
                loop.add_pairs(r * _WIDE + v, factor, vectors[v])
    return [loop.sums[r * _WIDE : (r + 1) * _WIDE] for r in range(len(rows))]


def _tops(builder: Any, rows: list[list[Any]]) -> list[Any]:
    """The largest whole number of each of four rows of vectors, as floats.

    The rows are folded together, two and two: half of the shuffles of folding each by itself.
    """

    def larger(a: Any, b: Any) -> Any:
        return builder.select(builder.icmp_signed(">", a, b), a, b)

    def chosen(a: Any, b: Any, lanes: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(_INTEGERS, lanes))

    def folded_together(a: Any, b: Any, width: int) -> Any:
        low = [i for i in range(2 * LANES) if i % (2 * width) < width]
        return larger(chosen(a, b, low), chosen(a, b, [i + width for i in low]))

    half, quarter = LANES // 2, LANES // 4
    a, b, c, d = (functools.reduce(larger, row) for row in rows)
    folded = folded_together(folded_together(a, b, half), folded_together(c, d, half), quarter)
    for apart in (2, 1):
        folded = larger(folded, chosen(folded, folded, [i ^ apart for i in range(LANES)]))
    folded = builder.sitofp(folded, _VECTOR)
    return [builder.extract_element(folded, _INDEX(r * quarter)) for r in range(4)]


@intrinsic
def dot(typing, a, a0, b, b0, n):  # type: ignore[no-untyped-def]
    """Inner product of `n` numbers from `a` and `b`; n is a multiple of LANES and not zero."""
    signature = types.float32(a, types.int64, b, types.int64, types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pointers = _pointers(context, builder, signature, args)
        left, right = (builder.gep(pointers[i], [args[i + 1]]) for i in (0, 2))
        with _Loop(builder, args[4], LANES, [_ZERO]) as loop:
            loop.add(0, *(_load(builder, p, loop.index, _VECTOR) for p in (left, right)))
        return _reduced(builder, "fadd", [ir.Constant(_FLOAT, 0.0), loop.sums[0]], "reassoc")

    return signature, generate


@intrinsic
def maxima(typing, numbers, one, others, out, at):  # type: ignore[no-untyped-def]
    """The larger of number `one` and each of the LANES numbers from `others` on."""
    i = types.int64
    signature = types.void(numbers, i, i, out, i)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        numbers, _, _, out, _ = _pointers(context, builder, signature, args)
        _, one, others, _, at = args
        repeated = _repeated(builder, builder.load(builder.gep(numbers, [one])), _VECTOR)
        larger = _larger(builder, _load(builder, numbers, others, _VECTOR), repeated)
        _store(builder, larger, builder.gep(out, [at]), 0)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def largest(typing, numbers, at):  # type: ignore[no-untyped-def]
    """The largest of PANEL numbers."""
    signature = types.float32(numbers, types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        numbers = _pointers(context, builder, signature, args)[0]
        return _top(builder, [_load(builder, numbers, args[1], _VECTOR, v) for v in range(_WIDE)])

    return signature, generate


@intrinsic
def reaches(typing, scores, at, least):  # type: ignore[no-untyped-def]
    """Which of PANEL scores are `least` or more: bit i of the answer for the i-th."""
    signature = types.uint64(scores, types.int64, types.float32)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        wide = ir.VectorType(_FLOAT, PANEL)
        scores = _load(builder, _pointers(context, builder, signature, args)[0], args[1], wide)
        reached = builder.fcmp_ordered(">=", scores, _repeated(builder, args[2], wide))
        return builder.bitcast(reached, _INT)

    return signature, generate


@intrinsic
def lowest_bit(typing, mask):  # type: ignore[no-untyped-def]
    """The place of the lowest bit of a mask that is not zero."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


class _Loop:
    """for index in range(0, stop, step), at least once, carrying vectors of sums in registers."""

    def __init__(self, builder: Any, stop: Any, step: int, first: list[Any]) -> None:
        self.builder, self.stop, self.step, self.first = builder, stop, step, first

    def __enter__(self) -> _Loop:
        builder = self.builder
        before = builder.block
        self.body = builder.append_basic_block("tile")
        builder.branch(self.body)
        builder.position_at_end(self.body)
        self.index = builder.phi(_INT)
        self.index.add_incoming(_INT(0), before)
        self.carried = [builder.phi(first.type) for first in self.first]
        for carried, first in zip(self.carried, self.first, strict=True):
            carried.add_incoming(first, before)
        self.sums: list[Any] = list(self.carried)
        return self

    def add(self, which: int, a: Any, b: Any) -> None:
        product = self.builder.fmul(a, b, flags=("contract",))
        self.sums[which] = self.builder.fadd(product, self.sums[which], flags=("contract",))

    def add_pairs(self, which: int, a: Any, b: Any) -> None:
        """Two products of 16-bit numbers for each 32-bit sum: one instruction, where there is one."""
        builder = self.builder
        wide = ir.VectorType(_INDEX, 2 * LANES)
        products = builder.mul(builder.sext(a, wide), builder.sext(b, wide), flags=("nsw",))
        even, odd = (
            builder.shuffle_vector(
                products, products, ir.Constant(_INTEGERS, list(range(i, 2 * LANES, 2)))
            )
            for i in range(2)
        )
        self.sums[which] = builder.add(self.sums[which], builder.add(even, odd))

    def __exit__(self, *failed: Any) -> None:
        builder = self.builder
        following = builder.add(self.index, _INT(self.step))
        self.index.add_incoming(following, self.body)
        for carried, total in zip(self.carried, self.sums, strict=True):
            carried.add_incoming(total, self.body)
        after = builder.append_basic_block("tile.end")
        builder.cbranch(builder.icmp_signed("<", following, self.stop), self.body, after)
        builder.position_at_end(after)


def _pointers(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """The data pointer of each argument that is an array; None for the others."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else None
        for kind, value in zip(signature.args, args, strict=True)
    ]


def _place(builder: Any, pointer: Any, start: Any, stride: Any, row: int) -> Any:
    """Where a row begins."""
    return builder.gep(pointer, [builder.add(start, builder.mul(stride, _INT(row)))])


def _at(builder: Any, pointer: Any, offset: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())


def _load(builder: Any, pointer: Any, offset: Any, kind: Any, which: int = 0) -> Any:
    """The vector that begins there, or the `which`-th after it."""
    offset = builder.add(offset, _INT(which * kind.count))
    loaded = builder.load(_at(builder, pointer, offset, kind))
    loaded.align = 1  # arrays begin anywhere
    return loaded


def _store(builder: Any, vector: Any, pointer: Any, which: int) -> None:
    place = _at(builder, pointer, _INT(which * LANES), vector.type)
    builder.store(vector, place).align = 4


def _repeated(builder: Any, number: Any, kind: Any) -> Any:
    """A vector of one number."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _INDEX(0))
    places = ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), places)


def _top(builder: Any, vectors: list[Any]) -> Any:
    """The largest number of all; there is no NaN."""
    top = functools.reduce(functools.partial(_larger, builder), vectors)
    return _reduced(builder, "fmax", [top], "nnan", "nsz")


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _reduced(builder: Any, name: str, args: list[Any], *flags: str) -> Any:
    return _call(builder, f"llvm.vector.reduce.{name}.v{LANES}f32", _FLOAT, args, fastmath=flags)


def _call(builder: Any, name: str, result: Any, args: list[Any], **flags: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args, **flags)

"""Parameters that do not fit are refused before anything is sent."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from infra.warehouse.literals import literal, quote, quote_name, render
from schemas.errors import InputError


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (256, "UInt8"), (-1, "UInt64"), (True, "UInt8"), (1.0, "UInt8"), ("1", "UInt8"),
        (None, "String"), (5, "String"), ("x", "Float64"), (1, "Bool"), ("x", "UUID"),
        (datetime(2026, 1, 1), "DateTime64(6)"), ("2026-01-01", "Date"),
        (date(2026, 1, 1), "DateTime"), (1.5, "Decimal(9, 2)"), (["x"], "Array(UInt8)"),
        ("x", "Array(String)"), ([], "Map(String, UInt8)"), ((1, 2), "Tuple(UInt8, UInt8)"),
        ("x", "no type("),
    ],
)  # fmt: skip
def test_what_does_not_fit(value: object, type_name: str) -> None:
    with pytest.raises(InputError, match="'x'"):
        render("SELECT {x:" + type_name + "}", {"x": value})


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(InputError, match="'other'"):
        render("SELECT {x:UInt8}, { other : String }", {"x": 1})
    with pytest.raises(InputError, match="'x'"):
        render("SELECT {x:UInt8}", None)


def test_strings_and_comments_are_left_alone() -> None:
    sql = """SELECT '{x:UInt8}', '\\'{x:UInt8}', "{x:UInt8}", `{x:UInt8}` -- {x:UInt8}
        /* {x:UInt8} */, map('a', 1), {x:UInt8}"""
    assert render(sql, {"x": 7}) == sql.removesuffix("{x:UInt8}") + "7"


def test_literals_are_closed() -> None:
    assert quote("'\\\0\n") == r"'\'\\\0\n'"
    assert quote(b"\x00'") == "unhex('0027')"
    assert quote_name("a`\\b") == r"`a\`\\b`"
    assert literal(-5, "Int8") == "(-5)"
    assert literal(Decimal("1.5"), "Decimal(9, 2)") == "CAST('1.5', 'Decimal(9, 2)')"

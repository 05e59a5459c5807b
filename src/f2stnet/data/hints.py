"""What people may have meant by a cell or a name that cannot be used as it is: the second half of an error's line."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?(\s*[AaPp][Mm])?")
_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{2,4}")
_COMMAS = re.compile(r"[-+]?\d+(,\d+)+")
_GROUPED = re.compile(r"[-+]?\d{1,3}([\s'’]\d{3})+([.,]\d+)?")  # as 1 420; \s is also a space that breaks no line
_COUNTED = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # digits of counts since 1970, from 2001 to 2286


def number_hint(text: str, decimal: str, readings: bool, texts: int, below_header: bool) -> str:
    """For a cell that is no number. `readings`: where there is a key missing; `texts`: how many different ones make up
    its whole column, 0 where that has numbers too; `below_header`: it is the first of its column, all others are fine.
    """
    text = text.strip()
    if _CLOCK.fullmatch(text) or _DATE.fullmatch(text):
        return "; date and time belong in one column, as 2024-03-31 08:05"
    if decimal == "," and "." in text:
        points = "; take points between thousands out" if "," in text else ""
        return f"; other numbers of this file have a decimal comma{points}"
    if _COMMAS.fullmatch(text):
        return "; write decimals with a point, or separate cells by semicolons; take commas between thousands out"
    if _GROUPED.fullmatch(text):
        return "; take what separates thousands out"
    if not readings:
        return ""
    coded = f"; if it means 'not observed', the key missing says so, as [{text!r}]"
    if not any(letter.isalpha() for letter in text) and texts < 2:  # '-' is neither a unit nor a remark
        return coded
    if texts:
        out = ", nor is any other cell; the key leave_out names columns that are not to be read"
        return out + coded if texts == 1 else out
    return f"; if its row is a second header, take it out{coded}" if below_header else coded


def stamp_hint(text: str, among_times: bool) -> str:
    """For a cell that is no time; `among_times`: those before it are."""
    if _CLOCK.fullmatch(text):
        return "; date and time belong in one column"
    whole = re.fullmatch(r"([0-9]+)(\.0*)?", text)
    unit = _COUNTED.get(len(whole[1])) if whole else None
    counted = ""
    if whole and unit:
        moment = datetime.fromtimestamp(int(whole[1][:10]), UTC)
        counted = f"; with time_unit = {unit}, a count since 1970, it is {moment:%Y-%m-%d %H:%M} in UTC"
    if re.fullmatch(r"[345]\d{4}([.,]\d*)?", text):  # 1982 to 2064
        moment = datetime(1899, 12, 30) + timedelta(minutes=round(float(text.replace(",", ".")) * 1440))
        return f"; if it is Excel's count of days, {moment:%Y-%m-%d %H:%M}, give the column the format yyyy-mm-dd hh:mm"
    if among_times and not any(letter.isdigit() for letter in text):
        return "; a row without a time, as one of totals, has to be taken out"
    return f"{counted}; the key time_format describes another way of writing, as %d.%m.%Y %H:%M"


def are_halves(first: str, second: str) -> bool:
    """Whether two cells are the date and the time of day of one moment."""
    return any(_DATE.fullmatch(one) and _CLOCK.fullmatch(other) for one, other in ((first, second), (second, first)))


def alike_note(kind: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names that only their case tells apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return (f"{kind} {other!r} and {name!r} are two; if they are one, give them one spelling in the file",)
    return ()

"""What an announcement announces: a maths span, a number or expression, or the words to the end of sentence or line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .anchors import Anchor

__all__ = ["Phrase", "exact_phrase", "math_phrase", "text_phrase"]

WINDOW = 2_000  # characters of content that are read
WORDS = 12  # a longer run of words after "Answer:" is an explanation

_DRESS = re.compile(r"(?:\s|[*_`>\"“”«»'#|:：]|\\(?:textbf|text|boldsymbol|mathbf)\{(?!\\))*+")
_BULLET = re.compile(r"(?:[-*•]|1\.)[^\S\n]++")
_FENCE = re.compile(r"```[a-z]*+[^\S\n]*+\n|```")
_FILLER = re.compile(
    r"(?:approximately|approx\.?|about|around|roughly|exactly|simply|just|therefore|thus|then|indeed|hence|also|now|clearly"
    r"|probably|likely|given by|equal to|equals|that|option|choice|actually|ungefähr|environ|approximativement|aproximadamente"
    r"|è|est|es|é|là|是|为|為|선택지|≈|=|:|：|,|a total of|the number|the value|the integer|the fraction)(?![^\W\d_])\s*+",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"(?:definitely |certainly |simply )?(?:not|no longer|nicht|nie|pas|no es|não é|non è)\b\s*+", re.IGNORECASE
)
_STOP = re.compile(r"[.!?](?=[\s\"'*_)\]}”]|$)|[。！？؟।]|\.(?=[一-鿿])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|approx|vs|etc|a\.m|p\.m|cf|no|dr|mr|mrs|ms|st|prof|jr|sr|[a-z]|[a-z]\.[a-z])\Z", re.I
)
_SCRIPTS = "\u0590-\u05ff\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PROSE = re.compile(
    rf"(?<![\\A-Za-z])[^\W\d_α-ωΑ-Ω{_SCRIPTS}]{{2,}}+|[{_SCRIPTS}]|(?<![\\A-Za-z\d])[aAI](?=\s++[a-z]{{2}})"
)
_FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt pi mod max min gcd lcm deg inf infinity"
    " or and xy xyz ab bc ac abc ax bx cx dx dy dz dt ex kx nx mx yz xz pq mn cis".split()
)
_UNITS = frozenset(
    "cm mm km m nm kg g mg lb lbs oz ml l ft inch inches feet foot yard yards mile miles meter meters metre metres centimeters"
    " kilometers kilograms grams hour hours hr hrs minute minutes min second seconds sec day days week weeks month months"
    " year years degree degrees percent mph kmh j kj hz khz n pa kpa mol v w kw ohm ohms square cubic sq cents cent dollar"
    " dollars euro euros thousand million millions billion billions trillion hundred dozen pm am".split()
)
_UNIT = re.compile(r"[^\W\d_]++(?:\s?\^\s?\d|[²³])?(?:/[a-zA-Z]{1,4}(?:\^\d|[²³])?)?")
_NUMBER = re.compile(
    r"(?<![\w.])[-−+]?(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)(?:\s?/\s?\d++)?(?:\\?%|°)?"
)
_TAIL_JUNK = " \t\r\n,;:.!-–—+*/=<>_`\"'“”|~（"
_LAST_LINK = re.compile(
    r"(?:\bis\b|\bare\b|\bequals\b|=|\bgives\b|\bof\b)\s*+(?:approximately |about |exactly )?", re.IGNORECASE
)
_EXPLAINS = re.compile(
    r"(?:let|to|we|first|firstly|since|because|based|given|the following|as follows|as shown|i|here|this|these|in|on|using|if|it|its|see"
    r"|above|below|explanation|steps?|correct|incorrect|wrong|right|obtained|found|calculated|determined|expressed|written|there"
    r"|they|he|she|you|your|what|how|why|when|where|which|who|for|from|by|so|also|now|my|our|hence|therefore|okay|ok|well|sure"
    r"|yes, |one|an? (?:integer|number|whole|fraction|multiple|positive|negative|single|real|rational|decimal|prime|list)|at|wait"
    r"|final|still|clear|already|always|reasonable|consistent|unclear|unknown|supposed|asked|needed|required|ready|in the)\b",
    re.IGNORECASE,
)
_REAL = re.compile(
    r"there (?:is|are|exists?) no\b|it (?:is|can(?:no|')t)|there does|no\b|none\b|cannot|can't|undefined|not\b|impossible",
    re.IGNORECASE,
)
_COPULA = re.compile(r"\s*+(?:입니다|이다|이에요|です|である|だ|となります|になります|है|हैं)\s*\Z")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content of an announcement; `denied`: the text says that this is not the answer."""

    content: str
    denied: bool = False


def math_phrase(text: str, anchor: Anchor) -> Phrase | None:
    """A `$…$` or `\\(…\\)` span, else an expression or number, else few words to the end of the sentence."""
    body, fresh = _body(text, anchor)
    if body.startswith(("\\[", "$$", "\\begin{")):
        shown = _display(body)
        return Phrase(_last_side(shown)) if shown else None
    line = body.partition("\n")[0]
    if anchor.link == "cell":
        line = line.partition("|")[0]
    spans = _spans(line)
    sentence, asked = _sentence(line, spans)
    if asked:
        return None
    denied = anchor.negated
    start = _fillers(sentence)
    if (
        anchor.link == "is"
        and (no := _NOT.match(sentence, start))
        and re.match(r"[-−+($\\\d]|[a-z]\b", sentence[no.end() :])
    ):
        denied, start = True, no.end()
    content = _span_content(sentence, start, spans)
    if content is None:
        content = _plain_content(sentence[start:], strict=anchor.link in {"equals", "hash", "line"}, fresh=fresh)
    if anchor.link == "hash" and content is not None and not _is_result(text, anchor, line, content):
        return None
    return Phrase(content, denied) if content else None


def text_phrase(text: str, anchor: Anchor) -> Phrase | None:
    """The line after a colon, the sentence after "is", without markup around it."""
    body, _ = _body(text, anchor)
    line = body.partition("\n")[0]
    if anchor.link == "cell":
        line = line.partition("|")[0]
    if anchor.link == "equals" or (anchor.link == "hash" and not _is_last(text, anchor)):
        return None
    spans = _spans(line)
    sentence, asked = _sentence(line, spans)
    if anchor.link == "is":
        if asked:
            return None
        line = sentence[_fillers(sentence, short=True) :]
    line = _COPULA.sub("", line.strip().rstrip("。।"))
    line = line.strip().strip('*_`"“”«»').strip()
    if line.endswith(".") and not line.endswith("..") and not _ABBREVIATION.search(line[:-1]):
        line = line[:-1].rstrip().rstrip('*_`"”»').rstrip()
    if len(spans) == 1 and line.startswith(("$", "\\(")) and line.endswith(("$", "\\)")):
        line = spans[0][2]
    if not any(c.isalnum() for c in line) and not re.search(r"[∅∞√]", line):
        return None
    if anchor.link == "heading" and line.endswith(":"):
        return None
    return Phrase(line, anchor.negated)


def exact_phrase(text: str, anchor: Anchor) -> Phrase | None:
    """The rest of the line, or the next line, code point for code point but for blanks around it."""
    if anchor.link == "equals" or (anchor.link == "hash" and not _is_last(text, anchor)):
        return None
    rest = text[anchor.end : anchor.end + WINDOW]
    dressed = re.match(r"[*_`]{1,3}+(?=\s)", rest)
    if dressed:
        rest = rest[dressed.end() :]
    line = rest.lstrip().partition("\n")[0]
    if anchor.link == "cell":
        line = line.partition("|")[0]
    return Phrase(line.strip(), anchor.negated) if line.strip() else None


def _body(text: str, anchor: Anchor) -> tuple[str, bool]:
    """The content's text without dress before it, and whether it starts on a new line."""
    rest = text[anchor.end : anchor.end + WINDOW]
    at, fresh = (rest.index("}") + 1 if rest.lstrip().startswith("}") else 0), False  # \\textbf{Answer:} 42
    for _ in range(4):
        dress = _DRESS.match(rest, at)
        assert dress is not None
        fresh = fresh or "\n" in dress[0]
        at = dress.end()
        fence = _FENCE.match(rest, at)
        if fence is None and fresh:
            fence = _BULLET.match(rest, at)
        if fence is None:
            break
        at = fence.end()
    return rest[at:], fresh


def _display(body: str) -> str | None:
    opening = "\\begin{" if body.startswith("\\begin{") else body[:2]
    if opening == "\\begin{":
        name = body[7 : body.find("}")]
        end = body.find("\\end{" + name + "}")
        return body[: end + len(name) + 6] if end > 0 and "}" in body[:40] else None
    end = body.find("\\]" if opening == "\\[" else "$$", 2)
    return body[2:end].strip().rstrip(".,") if end > 0 else None


def _spans(line: str) -> list[tuple[int, int, str]]:
    """Maths spans as (start, end, content). A dollar before a number that no dollar closes is money."""
    found: list[tuple[int, int, str]] = []
    at = 0
    closers = {"\\(": "\\)", "\\[": "\\]"}
    if "$" not in line and "\\(" not in line and "\\[" not in line:
        return found
    while len(found) < 40:
        start = min((p for p in (line.find(o, at) for o in ("$", "\\(", "\\[")) if p >= 0), default=-1)
        if start < 0:
            break
        if line[start] == "$":
            if start and line[start - 1] == "\\":
                at = start + 1
                continue
            width = 2 if line.startswith("$$", start) else 1
            end = line.find("$" * width, start + width)
            while end > 0 and line[end - 1] == "\\":
                end = line.find("$", end + 1)
            content = line[start + width : end] if end > 0 else ""
            money = content[:1].isdigit() and (
                content != content.rstrip() or line[end + width : end + width + 1].isdigit()
            )
            if not content.strip() or money:
                at = start + width
                continue
        else:
            width = 2
            end = line.find(closers[line[start : start + 2]], start + 2)
            if end < 0:
                at = start + 2
                continue
            content = line[start + 2 : end]
        found.append((start, end + width, content.strip()))
        at = end + width
    return found


def _sentence(line: str, spans: list[tuple[int, int, str]]) -> tuple[str, bool]:
    """`line` up to the end of its first sentence, and whether that is a question. A point in 3.5 ends nothing."""
    for stop in _STOP.finditer(line):
        at = stop.start()
        if any(start <= at < end for start, end, _ in spans):
            continue
        if stop[0] == "." and _ABBREVIATION.search(line[max(0, at - 8) : at]) and line[at + 1 :].strip(" *_\"'$)"):
            if re.match(r"\s+[A-Z]", line[at + 1 :]) and re.search(
                r"\d\s*[a-z]\Z|=\s*[a-z]\Z", line[max(0, at - 8) : at]
            ):
                return line[:at], False
            continue
        return line[:at], stop[0] in "?？؟"
    return line, False


def _fillers(sentence: str, *, short: bool = False) -> int:
    at = 0
    for _ in range(4):
        while at < len(sentence) and sentence[at] in " \t*_:：":
            at += 1
        filler = None if short else _FILLER.match(sentence, at)
        if filler is None:
            break
        at = filler.end()
    return at


def _span_content(sentence: str, start: int, spans: list[tuple[int, int, str]]) -> str | None:
    inside = [s for s in spans if start <= s[0] < len(sentence)]
    if not inside:
        return None
    first = inside[0]
    lead = sentence[start : first[0]].strip(" *_`\"'([")
    if lead:
        if re.fullmatch(r"[^\W\d_]\s*=|[-−+]|\w\s*\\?in", lead):
            return lead + first[2] if not lead.endswith("=") else f"{lead} {first[2]}"
        if _NUMBER.match(lead):
            return None
        link = None
        for link in _LAST_LINK.finditer(sentence, start):
            pass
        after = [s for s in inside if link is not None and s[0] >= link.end()]
        first = after[0] if after else first
    parts, end = [first[2]], first[1]
    for here, stop, content in inside[inside.index(first) + 1 :]:
        joint = sentence[end:here].strip().lower()
        if joint not in {
            ",",
            "and",
            "or",
            ", and",
            ", or",
            "und",
            "oder",
            "et",
            "ou",
            "y",
            "o",
            "e",
            "и",
            "и",
            "和",
            "或",
            "、",
            "と",
        }:
            break
        parts.append(content)
        end = stop
    if len(parts) > 1:
        return ", ".join(parts)
    tail = _UNIT.match(sentence, end + 1) if sentence[end : end + 1] == " " else None
    unit = tail[0] if tail and re.match(r"[^\W\d_]+", tail[0])[0].lower() in _UNITS and len(tail[0]) > 0 else ""  # type: ignore[index]
    content = _last_side(parts[0])
    return f"{content} {unit}" if unit and any(c.isdigit() for c in content) else content


def _plain_content(sentence: str, *, strict: bool, fresh: bool) -> str | None:
    sentence = sentence.strip().strip('*_`"“”«»').strip()
    if sentence.startswith("$") and not re.match(r"\$\s?[\d.]", sentence):
        return None  # a span that never closes is cut off
    sentence = re.sub(r"\A\\?[$€£¥]\s?(?=[\d.])|\A(?:US|USD|Rs\.?|INR|EUR)\s?\\?\$?\s?(?=\d)", "", sentence)
    prose = _first_prose(sentence)
    chunk = sentence if prose is None else sentence[: prose.start()]
    value = _trim(chunk)
    if value and (
        any(c.isdigit() for c in value) or re.search(r"[\\π√∞∅=+^]", value) or (prose is None and len(value) <= 40)
    ):
        if value.startswith("\\") and value.count("{") != value.count("}"):
            return None
        unit = _unit_after(sentence, prose, chunk)
        return f"{_last_side(value)} {unit}" if unit else _last_side(value)
    if strict:
        return None
    return _from_words(sentence, fresh=fresh)


def _from_words(sentence: str, *, fresh: bool) -> str | None:
    explains = _EXPLAINS.match(sentence) is not None and not _REAL.match(sentence)
    words = len(sentence.split())
    if words > 3 * WORDS:
        return None
    numbers = list(_NUMBER.finditer(sentence))
    if numbers and not (fresh and explains):
        links = list(_LAST_LINK.finditer(sentence))
        after = [n for n in numbers if links and n.start() >= links[-1].end()]
        pick = after[0] if len(after) == 1 else numbers[0] if len(numbers) == 1 else None
        if pick is not None and not (explains and not after):
            rest = sentence[pick.end() :]
            unit = _UNIT.match(rest.lstrip())
            known = unit is not None and re.sub(r"[^a-zA-Z].*", "", unit[0]).lower() in _UNITS
            return f"{pick[0]} {unit[0]}" if unit is not None and known else pick[0]
    content = _COPULA.sub("", sentence.strip(_TAIL_JUNK))
    if explains or not content or words > WORDS or (fresh and sentence.endswith(":")):
        return None
    return content if any(c.isalnum() for c in content) else None


def _first_prose(sentence: str) -> re.Match[str] | None:
    depth, at = 0, 0
    for word in _PROSE.finditer(sentence):
        if word[0].lower() in _FUNCTIONS:
            continue
        depth += sentence.count("{", at, word.start()) - sentence.count("}", at, word.start())
        at = word.start()
        if depth > 0 or sentence[max(0, at - 1) : at] in {"_", "^"}:
            continue
        return word
    return None


def _unit_after(sentence: str, prose: re.Match[str] | None, chunk: str) -> str:
    if prose is None or not chunk[-1:].isspace() and not chunk[-1:].isdigit():
        return ""
    if not re.search(r"[\d})π]\s?\Z", chunk):
        return ""
    unit = _UNIT.match(sentence, prose.start())
    if unit is None or prose[0].lower() not in _UNITS:
        return ""
    return unit[0]


def _trim(chunk: str) -> str:
    """`chunk` without what led over to the words after it."""
    value = chunk.strip()
    for _ in range(6):
        before = value
        value = value.rstrip(_TAIL_JUNK).rstrip()
        value = re.sub(r"(?:\s+|(?<=[,;]))(?:and|or|a|A|I|\\text\{?|\\mathrm\{?)\Z", "", value)
        for opening, closing in ("()", "[]"):
            if value.endswith(opening):
                value = value[:-1]
            at = value.rfind(opening)
            # "(3, 5]" is an interval; "42 (in" is not one
            if at > 0 and closing not in value[at:] and not (set("()[]") - {opening}) & set(value[at + 1 :]):
                value = value[:at]
        for opening, closing in ("()", "[]", "{}"):
            if value.endswith(closing) and opening not in value and not set("([") & set(value):
                value = value[:-1]
        if value == before:
            break
    return value


def _last_side(value: str) -> str:
    """12 + 3 = 15 is 15, and so is x = 12 + 3 = 15; x = 15 stays, an equation is for the keys to judge."""
    sides = value.split("=")
    if (
        len(sides) < 2
        or any(c in value for c in ",;<>≤≥")
        or re.search(r"\band\b|\bor\b|\\(?:text|begin|le|ge|ne|quad|pm)(?![a-z])", value)
    ):
        return value
    plain = re.sub(r"\\[a-zA-Z]+", "", sides[0])
    if len(sides) > 2 or (any(c.isdigit() for c in plain) and not any(c.isalpha() for c in plain)):
        last = sides[-1].strip()
        return last or value
    return value


def _is_result(text: str, anchor: Anchor, line: str, content: str) -> bool:
    """Whether `#### …` is GSM8K's last line and no heading: all of the line is the result, or it closes the text."""
    return len(content) >= len(line.strip(" .*$")) - 8 and re.match(r"\d+\.\s+\S", line) is None or _is_last(text, anchor)


def _is_last(text: str, anchor: Anchor) -> bool:
    line_end = text.find("\n", anchor.end)
    return line_end < 0 or not text[line_end : line_end + WINDOW].strip()

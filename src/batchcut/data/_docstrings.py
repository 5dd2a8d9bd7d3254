"""The first sentence of a docstring, as plain words."""

import re

_SECTION = re.compile(
    r"(?:args|arguments|attributes|examples?|keyword arguments|notes?|parameters|raises|returns?|see also|yields?|"
    r"warnings?)\s*:{0,2}\s*$|>>>|\.\. |[-*+] |[-=~*_^]{3,}\s*$|[:@](?:param|arg|type|returns?|rtype|raises?)\b",
    re.IGNORECASE,
)
_ROLE = re.compile(r":[\w:+-]+:`~?([^`<]*?)\s*(?:<[^`]*>)?`")
_CALL = re.compile(r"(?:\w+\.)*(\w+)\(")
_RESULT = re.compile(r"[ \t]*(?:[-=]>[^\n]*?(?=\.?\s*\n|\.\s|\.?\s*$|\s--\s))?[\s.:]*(?:--\s*)?")
_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)")
_GOES_ON = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|a\.k\.a|w\.r\.t|aka|approx|cf|eqs?|figs?|incl|resp|vs)\.$", re.IGNORECASE
)
_MAY_END = re.compile(r"(?:^|[\s(])(?:\w|al|dims?|etc|max|min|nos?|sec)\.$", re.IGNORECASE)


def first_sentence(docstring: str, name: str) -> str:
    """The first sentence of a cleaned docstring of the function `name`, in one line without markup; or "".

    A docstring may open with the call itself (`conv1d(input, weight) -> Tensor`) or with a directive
    (`.. deprecated::`); what comes after these counts. A sentence ends with its paragraph, or at a full stop, question
    or exclamation mark before a space, unless that closes an abbreviation: one after which sentences go on (`e.g.`), or
    one with which they may end (`etc.`) before a small letter.
    """
    text = " ".join(_paragraph(docstring, name))
    text = _ROLE.sub(r"\1", text).replace("`", "")
    text = " ".join(text.split())
    for end in _END.finditer(text):
        sentence, rest = text[: end.end()], text[end.end() :].lstrip()
        if not (_GOES_ON.search(sentence) or (_MAY_END.search(sentence) and rest[:1].islower())):
            return sentence
    return text


def _paragraph(docstring: str, name: str) -> list[str]:
    """The lines of the first paragraph that says something."""
    for block in re.split(r"\n\s*\n", docstring.strip()):
        lines = _after_call(block, name).splitlines()
        if not lines or lines[0].startswith((" ", "..")):
            continue
        kept: list[str] = []
        for line in lines:
            if _SECTION.match(line.strip()):
                break
            kept.append(line)
        return kept
    return []


def _after_call(block: str, name: str) -> str:
    """What stands after calls of the function at the beginning of a block: `name(…) -> result`."""
    while (found := _CALL.match(block)) and found[1] in (name, "__init__"):
        depth, place = 1, found.end()
        while depth and place < len(block):
            depth += {"(": 1, ")": -1}.get(block[place], 0)
            place += 1
        result = _RESULT.match(block, place)
        block = block[place if result is None else result.end() :]
    return block

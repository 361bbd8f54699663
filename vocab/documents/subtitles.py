"""The text of subtitles: SubRip (.srt) and WebVTT (.vtt), without numbers, times, notes, styles and tags."""

import html
import re
from typing import Final

from vocab.documents.lines import ENDS_SENTENCE
from vocab.documents.zipped import normalize_text

_TIME: Final = r"(?:\d{1,4}:)?\d{1,2}:\d\d[.,]\d{1,3}"
_TIMING: Final = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}")
_TAG: Final = re.compile(r"<rt>[^<\n]*</rt>|</?[A-Za-z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}")
_DASHES: Final = ("-", "–", "—", "\u2010")


def text_of_subtitles(text: str) -> str:
    """Return what is spoken, a line for each sentence, and for each cue that does not go on in small letters."""
    # A blank line ends a cue of WebVTT, and what stands before the next times is a note, a style or a name.
    is_webvtt = text.startswith("WEBVTT")
    is_cue, is_first, spoken = False, True, ""
    pieces: list[str] = []
    lines = text.splitlines()
    for tagged, following in zip(lines, [*lines[1:], ""], strict=True):
        line = html.unescape(_TAG.sub("", tagged)).strip()
        if _TIMING.match(tagged):
            is_cue = is_first = True
        elif not tagged.strip():
            is_cue = is_cue and not is_webvtt
        elif line and is_cue and not (line.isdigit() and _TIMING.match(following)):
            goes_on = line[0].islower() or not (is_first or ENDS_SENTENCE.search(spoken))
            pieces += [" " if goes_on and not line.startswith(_DASHES) else "\n", line]
            is_first, spoken = False, line
    return normalize_text("".join(pieces[1:]))

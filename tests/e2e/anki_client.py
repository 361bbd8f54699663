"""Imports a file of cards into a new collection of Anki and prints the fields of its notes as a reader sees them.

Run by an interpreter that has the package ``anki``: ``python anki_client.py cards.tsv``.
"""

import html
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from anki.collection import Collection, ImportCsvRequest  # type: ignore[import-not-found]


def text_of(collection: Any, field: str) -> str:
    """Return the text of a field; raise where Anki plays, draws or hides a part of it."""
    backend = collection._backend
    note = collection.new_note(collection.models.by_name("Cloze"))
    note.fields[0] = field
    taken = (
        *backend.extract_av_tags(text=field, question_side=True).av_tags,
        *backend.extract_latex(text=field, svg=False, expand_clozes=False).latex,
        *backend.cloze_numbers_in_note(note._to_backend_note()),
    )
    if taken:
        raise ValueError(f"of {field!r}, Anki takes {taken} for its own")
    return html.unescape(re.sub(r"<[^>]*>", "", field.replace("<br>", "\n")))


def add_note_type(collection: Any, fields: list[str]) -> None:
    """Add a type of notes with a field for each column, and make it the one that the dialog begins with."""
    made = collection.models.new("Cards")
    for field in fields:
        collection.models.add_field(made, collection.models.new_field(field))
    template = collection.models.new_template("Card")
    template["qfmt"], template["afmt"] = f"{{{{{fields[0]}}}}}", f"{{{{{fields[-1]}}}}}"
    collection.models.add_template(made, template)
    added = collection.models.add_dict(made)
    collection.set_config("curModel", added.id)


def main(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection(str(Path(folder) / "collection.anki2"))
        fields = list(collection.get_csv_metadata(path=path, delimiter=None).column_labels)
        add_note_type(collection, fields)
        # What its dialog offers for the file.
        metadata = collection.get_csv_metadata(path=path, delimiter=None)
        collection.import_csv(ImportCsvRequest(path=path, metadata=metadata))
        notes = [collection.get_note(note) for note in sorted(collection.find_notes(""))]
        print(json.dumps([[text_of(collection, field) for field in note.fields] for note in notes]))
        collection.close()


if __name__ == "__main__":
    main(sys.argv[1])

"""The pieces that the store's transactions are made of: looking up, locking, changing and counting rows.

Each takes the connection of a transaction and knows one or two tables. None of them begins or ends a transaction.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, false, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from deployments.batch.state import tables
from deployments.batch.state.records import BatchRecord, FileRecord, Status

_CHUNK: Final = 500
"""Values looked for in one statement; SQLite took 999 before 2020."""

Record = TypeVar("Record", FileRecord, BatchRecord)
Row: TypeAlias = Mapping[Any, Any]


class UnknownCursorError(Exception):
    """The owner has nothing of the id after which a list was to go on."""


def is_named(table: Table, owner: str | None, record_id: str) -> list[ColumnElement[bool]]:
    if not (record_id.isascii() and record_id.isprintable()):
        return [false()]  # comes from a client; PostgreSQL refuses a statement with a NUL in it
    return [table.c.id == record_id, *([] if owner is None else [table.c.owner == owner])]


def page_of(
    connection: Connection, query: Select[Any], table: Table, owner: str, after: str | None, newest_first: bool
) -> Select[Any]:
    """The query, ordered, and of what comes after the owner's record ``after`` only."""
    number = table.c.number
    if after is not None:
        cursor = connection.scalar(select(number).where(*is_named(table, owner, after)))
        if cursor is None:
            raise UnknownCursorError
        query = query.where(number < cursor if newest_first else number > cursor)
    return query.order_by(number.desc() if newest_first else number)


def first_of(
    connection: Connection, query: Select[Any], limit: int, to_record: Callable[[Row], Record]
) -> tuple[list[Record], bool]:
    """At most ``limit`` records of the query, and whether it has more."""
    records = [to_record(row) for row in connection.execute(query.limit(limit + 1)).mappings()]
    return records[:limit], len(records) > limit


def count_batches(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(tables.batches).where(*conditions)) or 0


def lock_batch(connection: Connection, batch_id: str, statuses: Collection[Status]) -> Row | None:
    """The batch's row if it has one of these statuses; it stays so until the transaction ends."""
    of = tables.batches.c
    query = select(tables.batches).where(of.id == batch_id, of.status.in_(statuses)).with_for_update()
    return connection.execute(query).mappings().one_or_none()


def change_batch(connection: Connection, row: Row, changes: Mapping[str, Any]) -> BatchRecord:
    """Writes the changed fields of a locked batch, once the whole of it was found valid."""
    changed = BatchRecord.model_validate({**tables.to_batch(row).model_dump(), **changes})
    values = {name: value for name, value in changed.model_dump().items() if name in changes}
    if values:
        connection.execute(update(tables.batches).where(tables.batches.c.number == row["number"]).values(values))
    return changed


def put_file(connection: Connection, file: FileRecord) -> None:
    values = file.model_dump()
    connection.execute(upsert(connection, tables.files, ("id",), values), values)


def upsert(connection: Connection, table: Table, key: Sequence[str], changes: Mapping[str, Any]) -> Any:
    """An insertion that makes these changes to a row which has the key already."""
    is_sqlite = connection.dialect.name == "sqlite"
    into: Any = sqlite.insert(table) if is_sqlite else postgresql.insert(table)
    return into.on_conflict_do_update(index_elements=list(key), set_=dict(changes))


def recorded_among(connection: Connection, number: int, lines: Sequence[int]) -> Iterator[int]:
    of = tables.results.c
    for start in range(0, len(lines), _CHUNK):
        query = select(of.line).where(of.batch == number, of.line.in_(lines[start : start + _CHUNK]))
        yield from connection.scalars(query)


def is_line_of(table: Table, batch_id: str) -> ColumnElement[bool]:
    number = select(tables.batches.c.number).where(tables.batches.c.id == batch_id).scalar_subquery()
    return table.c.batch == number


def delete_lines(connection: Connection, number: int) -> None:
    for table in (tables.results, tables.attempts):
        connection.execute(delete(table).where(table.c.batch == number))

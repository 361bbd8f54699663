"""Parts of the transactions of ``BatchStore``; each takes the connection of one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, false, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from deployments.batch.state import database
from deployments.batch.state.records import BatchRecord, FileRecord, Status

_CHUNK: Final = 500
"""Values looked for in one statement; SQLite took 999 before 2020."""

Record = TypeVar("Record", FileRecord, BatchRecord)
Row: TypeAlias = Mapping[Any, Any]


class UnknownCursorError(Exception):
    """The owner has no record of the id after which a list was to continue."""


# Parts of transactions: each takes the connection of one.


def is_named(table: Table, owner: str | None, record_id: str) -> list[ColumnElement[bool]]:
    """Return the conditions for the record of an id: the owner's, or anyone's with None."""
    if not (record_id.isascii() and record_id.isprintable()):
        return [false()]  # comes from a client; PostgreSQL refuses a statement with a NUL in it
    return [table.c.id == record_id, *([] if owner is None else [table.c.owner == owner])]


def page_of(
    connection: Connection, query: Select[Any], table: Table, owner: str, after: str | None, newest_first: bool
) -> Select[Any]:
    """Return the query ordered by age, continued after the owner's record ``after``."""
    number = table.c.number
    if after is not None:
        cursor = connection.scalar(select(number).where(*is_named(table, owner, after)))
        if cursor is None:
            raise UnknownCursorError
        query = query.where(number < cursor if newest_first else number > cursor)
    return query.order_by(number.desc() if newest_first else number)


def lock_additions(connection: Connection) -> None:
    """Wait until no other transaction counts before it adds. SQLite has one that writes at a time anyway."""
    connection.execute(select(database.schema.c.version).with_for_update())


def sum_bytes(connection: Connection, owner: str, *conditions: ColumnElement[bool]) -> int:
    """Return the bytes of the owner's files that meet the conditions, together."""
    query = select(func.sum(database.files.c.num_bytes)).where(database.files.c.owner == owner, *conditions)
    return int(connection.scalar(query) or 0)


def count_batches(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(database.batches).where(*conditions)) or 0


def lock_batch(connection: Connection, batch_id: str, statuses: Collection[Status]) -> Row | None:
    """Return the batch's row if it has one of these statuses, locked until the transaction ends."""
    of = database.batches.c
    query = select(database.batches).where(of.id == batch_id, of.status.in_(statuses)).with_for_update()
    return connection.execute(query).mappings().one_or_none()


def change_batch(connection: Connection, row: Row, changes: Mapping[str, Any]) -> BatchRecord:
    """Validate the batch with the changes, and write them."""
    changed = BatchRecord.model_validate({**to_record(row, BatchRecord).model_dump(), **changes})
    values = {name: value for name, value in changed.model_dump().items() if name in changes}
    if values:
        connection.execute(update(database.batches).where(database.batches.c.number == row["number"]).values(values))
    return changed


def put_file(connection: Connection, file: FileRecord) -> None:
    values = file.model_dump()
    connection.execute(upsert(connection, database.files, ("id",), values), values)


def upsert(connection: Connection, table: Table, key: Sequence[str], changes: Mapping[str, Any]) -> Any:
    """Return an insertion that makes these changes where a row has the key already."""
    is_sqlite = connection.dialect.name == "sqlite"
    into: Any = sqlite.insert(table) if is_sqlite else postgresql.insert(table)
    return into.on_conflict_do_update(index_elements=list(key), set_=dict(changes))


def select_recorded(connection: Connection, number: int, lines: Sequence[int]) -> Iterator[int]:
    """Yield those of the lines that have a result already."""
    of = database.results.c
    for start in range(0, len(lines), _CHUNK):
        query = select(of.line).where(of.batch == number, of.line.in_(lines[start : start + _CHUNK]))
        yield from connection.scalars(query)


def is_line_of(table: Table, batch_id: str) -> ColumnElement[bool]:
    """Return the condition for the rows of a batch's lines."""
    number = select(database.batches.c.number).where(database.batches.c.id == batch_id).scalar_subquery()
    return table.c.batch == number


def delete_lines(connection: Connection, number: int) -> None:
    """Delete the results and the attempts of a batch's lines."""
    for table in (database.results, database.attempts):
        connection.execute(delete(table).where(table.c.batch == number))


def to_record(row: Row, kind: type[Record]) -> Record:
    return kind.model_validate({name: row[name] for name in kind.model_fields})

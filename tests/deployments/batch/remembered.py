"""Records to remember, with every field that a test does not care about filled in."""

from typing import Any

from deployments.batch.state.records import BatchRecord, FileRecord, LineResult


def a_file(file_id: str = "file-1", **fields: Any) -> FileRecord:
    values = {"owner": "anna", "purpose": "batch", "filename": "in.jsonl", "num_bytes": 5, "created_at": 100}
    return FileRecord.model_validate({"id": file_id, **values, **fields})


def a_batch(batch_id: str = "batch_1", **fields: Any) -> BatchRecord:
    values = {"owner": "anna", "kind": "batch", "endpoint": "/v1/chat/completions", "input_file_id": "file-1"}
    times = {"completion_window": "24h", "created_at": 100, "deadline": 86500}
    return BatchRecord.model_validate({"id": batch_id, **values, **times, **fields})


def a_result(line: int, record: str = "{}", *, is_error: bool = False) -> LineResult:
    return LineResult(line=line, is_error=is_error, record=record)

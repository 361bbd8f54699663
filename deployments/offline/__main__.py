"""``python -m deployments.offline IN OUT --config YAML``: answer a file of requests with engines of its own."""

import argparse
import logging
import sys
from pathlib import Path

from ray.exceptions import RayError

from deployments.offline.config import OfflineConfig, RefusedError
from deployments.offline.run import run
from deployments.settings.service import SettingsError

_DESCRIPTION = "Answers chat requests in bulk, with engines of its own, on this machine or a Ray cluster."

_EPILOG = """
IN is a JSON Lines file (.jsonl), a Parquet file, a folder of either, or a URL that fsspec opens. A row is
  - a line of OpenAI's batches: {"custom_id": ..., "body": {a chat request}}
    (in Parquet: columns custom_id and body, the body a struct or JSON text), or
  - a bare chat request: {"messages": [...], "max_tokens": 100, "vocab": {...}}, or
  - anything, where the configuration says what comes from which column:

      model_name: google/gemma-3-27b-it          # settings of the service: model, lists, limits, placement_bundles
      offline:
        columns: {prompt: question, custom_id: id, vocab_lang: language, vocab_n_words: level}
        request: {max_tokens: 200}               # for rows that do not say otherwise
        engines: 2

OUT is a folder or a URL. OUT/answers holds the rows with answers and OUT/errors the others, in the format of IN: of
JSON Lines, output lines of OpenAI's batches; of Parquet, the columns of IN that hold one plain value, then custom_id,
file, row, answer, finish_reason, prompt_tokens, completion_tokens and completion (all of it, as JSON), or status, code,
message and param. Every row of IN comes once; its place in IN is in file and row.

A run that was ended, however that was, goes on where it was when it is started again with the same arguments. To have
rows that are errors tried again, delete OUT/errors first.
Where RAY_ADDRESS names a cluster, or under `ray job submit`, it runs there. The exit status is 0 when every row is in
the output (rows that are errors too), 1 when the run could not go on, 2 when it could not begin.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deployments.offline",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="IN", help="file, folder or URL of requests")
    parser.add_argument("output", metavar="OUT", help="folder or URL for the answers")
    parser.add_argument("--config", metavar="YAML", type=Path, required=True, help="settings")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        config = OfflineConfig.read(given.config)
        print(f"wordbound settings, all others by default:\n{config.settings.as_text()}", flush=True)
        print(f"offline: {config.offline!r}", flush=True)
        summary = run(given.source, given.output, config)
    except (SettingsError, RefusedError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    except (RayError, OSError, KeyboardInterrupt) as error:
        reason = str(error) or type(error).__name__
        print(f"ended: {reason}\nWhat was written stays; started again, the run goes on there.", file=sys.stderr)
        return 1
    print(summary.as_text(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

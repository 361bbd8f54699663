"""Spans for OpenTelemetry: of Ray Serve's requests, by ``tracing_config`` in the YAML file, and below them of vLLM's.

They have routes, statuses, ids, numbers of tokens and times; no key, prompt or text.
"""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def otlp() -> list[BatchSpanProcessor]:
    """Return what sends spans to a collector; ``tracing_config.exporter_import_path: deployments.tracing:otlp``.

    OpenTelemetry's variables say where (``OTEL_EXPORTER_OTLP_ENDPOINT``, by default ``http://localhost:4318``) and as
    whom (``OTEL_EXPORTER_OTLP_HEADERS``).
    """
    return [BatchSpanProcessor(OTLPSpanExporter())]

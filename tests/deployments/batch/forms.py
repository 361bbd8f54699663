"""Multipart forms, made by hand."""

BOUNDARY = "b0undary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def part(content: bytes = b"x", disposition: str = 'name="file"; filename="a.jsonl"', *headers: str) -> bytes:
    lines = [f"--{BOUNDARY}", f"Content-Disposition: form-data; {disposition}", *headers, "", ""]
    return "\r\n".join(lines).encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()

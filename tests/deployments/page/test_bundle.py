"""The page's files over HTTP: who gets them, what a browser may do with them, and when they are sent again."""

import gzip
import re
from pathlib import Path

import pytest

from deployments.page.bundle import CONTENT_SECURITY_POLICY, Bundle
from tests.deployments.front import KEY, assert_error, client_of

FILES = {
    "index.html": b"<!doctype html><script src=/page/page.js type=module></script>" * 20,
    "page.js": b"export const answer = 42;\n" * 200,
    "page.css": b"",
    "letters.woff2": bytes(range(256)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.fault(5)
async def test_a_browser_without_a_key_gets_the_page_and_nothing_else(folder: Path) -> None:
    async with client_of(page=Bundle(folder)) as client:
        for path, kind, name in [
            ("/", "text/html; charset=utf-8", "index.html"),
            ("/page/page.js", "text/javascript; charset=utf-8", "page.js"),
            ("/page/page.css", "text/css; charset=utf-8", "page.css"),
            ("/page/letters.woff2", "font/woff2", "letters.woff2"),
        ]:
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            assert answer.content == FILES[name]
            assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-cache"
        for path in ("/page/", "/page", "/page/index.html", "/page/other.js", "/page/%70age.js", "/index.html"):
            assert_error(await client.get(path), 401, code="invalid_api_key")
            assert_error(await client.get(path, headers={"X-API-Key": KEY}), 404)
        assert_error(await client.post("/"), 405)


async def test_what_is_smaller_compressed_is_sent_so_to_whom_accepts_it(folder: Path) -> None:
    async with client_of(page=Bundle(folder)) as client:
        for accepted, encoding in [
            ("gzip, deflate, br", "gzip"),
            ("br;q=1, *;q=0.1", "gzip"),
            ("gzip;q=0, *", None),
            ("identity", None),
        ]:
            answer = await client.get("/page/page.js", headers={"Accept-Encoding": accepted})
            assert answer.headers.get("content-encoding") == encoding
            assert answer.headers["vary"] == "Accept-Encoding"
            assert answer.content == FILES["page.js"]
        packed = await client.get("/page/page.js", headers={"Accept-Encoding": "gzip"})
        assert int(packed.headers["content-length"]) == len(gzip.compress(FILES["page.js"])) < len(FILES["page.js"])
        font = await client.get("/page/letters.woff2", headers={"Accept-Encoding": "gzip"})
        assert {"content-encoding", "vary"}.isdisjoint(font.headers)


async def test_a_file_that_is_known_is_not_sent_again_until_it_changes(folder: Path) -> None:
    tags = []
    async with client_of(page=Bundle(folder)) as client:
        for accepted in ("gzip", "identity"):
            headers = {"Accept-Encoding": accepted}
            tag = (await client.get("/", headers=headers)).headers["etag"]
            for known in (tag, f'W/{tag}, "other"', "*"):
                answer = await client.get("/", headers={**headers, "If-None-Match": known})
                assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
                assert "content-length" not in answer.headers
            assert (await client.get("/", headers={**headers, "If-None-Match": '"other"'})).status_code == 200
            tags.append(tag)
    # A tag is of the bytes that are sent.
    assert tags[0] != tags[1]
    (folder / "index.html").write_text("<!doctype html>" * 30)
    async with client_of(page=Bundle(folder)) as client:
        assert (await client.get("/", headers={"If-None-Match": ", ".join(tags)})).status_code == 200


async def test_an_answer_to_head_has_the_headers_alone(folder: Path) -> None:
    async with client_of(page=Bundle(folder)) as client:
        answers = [await client.request(method, "/") for method in ("HEAD", "GET")]
    assert answers[0].content == b""
    headers = [{**answer.headers, "x-request-id": ""} for answer in answers]
    assert headers[0] == headers[1]


async def test_without_the_page_its_paths_are_none() -> None:
    async with client_of() as client:
        assert_error(await client.get("/"), 401, code="invalid_api_key")
        assert_error(await client.get("/", headers={"X-API-Key": KEY}), 404)


def test_a_folder_without_a_page_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make page"):
        Bundle(tmp_path)
    (tmp_path / "index.html").write_text("")
    (tmp_path / "notes.odt").write_text("")
    with pytest.raises(ValueError, match=r"notes\.odt: expected a name that ends in one of \.html"):
        Bundle(tmp_path)


async def test_all_that_is_sent_of_the_page_is_little_and_its_own() -> None:
    async with client_of(page=Bundle()) as client:
        paths = list(Bundle().paths)
        answers = {path: await client.get(path, headers={"Accept-Encoding": "gzip"}) for path in paths}
    assert sum(int(answer.headers["content-length"]) for answer in answers.values()) < 120_000
    named = re.findall(r'(?:src|href)="(?!data:)([^"]*)"', answers["/"].text)
    assert named and set(named) <= answers.keys()

"""Who may use a dashboard, and as which session."""

from __future__ import annotations

import pytest

PATHS = ["/api/session", "/api/models", "/v/abc/", "/events/abc", "/api/logs/stream"]


@pytest.mark.parametrize("path", PATHS)
def test_without_token_or_cookie_nothing_is_told(dashboard, path):
    running = dashboard()
    assert running.ask(path, token=None).status == 401
    assert running.ask(path, token="wrong").status == 401
    assert running.ask(path, token=None, Cookie="chunkloom=guessed").status == 401


def test_a_page_without_token_says_what_to_do(dashboard):
    answer = dashboard().ask("/", token=None)
    assert answer.status == 401
    assert b"Open the link" in answer.body


def test_the_link_gives_a_cookie_that_scripts_cannot_read_and_drops_the_token(dashboard):
    running = dashboard()
    answer = running.ask("/?token=a-token-for-tests&tab=models", token=None)
    assert answer.status == 303
    assert answer.headers["location"] == "./?tab=models"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=Lax" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert running.ask("/api/session", token=None, Cookie=cookie).status == 200


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}],
    ids=["rebound host", "another site", "a sandboxed page"],
)
@pytest.mark.parametrize("path", ["/api/session", "/", "/static/style.css"])
def test_other_hosts_and_origins_are_refused_even_with_the_token(dashboard, path, headers):
    assert dashboard().ask(path, **headers).status == 403


def test_two_browsers_have_two_sessions(dashboard):
    running = dashboard()
    one, two = running.browser_cookie(), running.browser_cookie()
    assert one != two
    first = running.ask("/api/session", token=None, Cookie=one).json["session"]
    second = running.ask("/api/session", token=None, Cookie=two).json["session"]
    assert first != second


def test_a_script_is_answered_while_there_is_one_session_else_named(dashboard):
    running = dashboard()
    alone = running.ask("/api/session").json["session"]
    assert running.ask("/api/session").json["session"] == alone
    running.browser_cookie()
    answer = running.ask("/api/session")
    assert answer.status == 409
    assert alone in answer.json["error"]
    named = running.ask("/api/session", X_Chunkloom_Session=alone)
    assert named.json["session"] == alone


def test_chunks_are_open_to_other_pages_but_not_to_be_found(dashboard, em):
    running = dashboard()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    session = next(iter(running.dashboard.sessions))
    answer = running.ask(f"/volumes/{session.volume_name}/zarr3/zarr.json", token=None, Origin="http://other.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    for path in ("/volumes/", "/volumes", "/volumes/api/volumes", "/volumes/metrics", "/volumes/docs"):
        assert running.ask(path, token=None).status == 404


def test_one_session_does_not_reach_anothers_viewer(dashboard, em):
    running = dashboard()
    one, two = running.browser_cookie(), running.browser_cookie()
    opened = running.ask("/api/set-data", "POST", {"dataset_path": str(em)}, token=None, Cookie=one)
    viewer = "/" + opened.json["neuroglancer_url"]
    assert running.ask(viewer, token=None, Cookie=one).status == 200
    assert running.ask(viewer, token=None, Cookie=two).status == 404


def test_an_equivalence_secret_opens_nothing_else(dashboard):
    running = dashboard()
    running.browser_cookie()
    session = next(iter(running.dashboard.sessions))
    secret = session.equivalence_token
    assert running.ask("/api/session", token=secret).status == 401
    assert running.ask("/api/session", token=None, Cookie=f"chunkloom={secret}").status == 401
    body = {"dataset": "none", "equivalences": [[1, 2]]}
    assert running.ask(f"/equivalences/{secret}/update/equivalences", "POST", body, token=None).status == 200
    assert running.ask("/equivalences/wrong/update/equivalences", "POST", body, token=None).status == 404

"""docs/api.md and the application have the same routes, and the docs say of each what HTTP calls it."""

import json
import re
from pathlib import Path

from described import description

from dare_service.app import create_app

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"
OF_SWAGGER = {("GET", "/docs/oauth2-redirect")}  # a page that Swagger's login would come back to


def documented():
    table = DOCUMENT.read_text().split("| route | what it does |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {tuple(found) for row in rows for found in re.findall(r"`([A-Z]+) (\S+?)`", row)}


def test_the_table_of_routes_is_the_application_s():
    found = {(method, r.path) for r in create_app().routes for method in getattr(r, "methods", set()) - {"HEAD"}}
    routes = {(method, path) for method, path in found if not path.startswith("/page/")}  # what the page is made of
    assert documented() == routes - OF_SWAGGER


def test_the_example_of_info_is_the_reply_of_a_service_that_has_just_begun(make_service, tmp_path):
    paths = json.loads(description.document())["paths"]
    content = paths["/info"]["get"]["responses"]["200"]["content"]["application/json"]
    assert (
        make_service(page="on", run_log=str(tmp_path), join_runs="distinct").get("/info").json() == content["example"]
    )

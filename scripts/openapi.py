"""Write openapi.json from the application: python scripts/openapi.py. A test compares them."""

import json
from pathlib import Path

from dare_service.app import create_app

if __name__ == "__main__":
    document = create_app().openapi()
    Path(__file__).parents[1].joinpath("openapi.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")

"""The settings of the service as a Markdown table, from their declarations."""

from dataclasses import fields

from dare_service.settings import Settings

if __name__ == "__main__":
    print("| variable | default | why |\n|---|---|---|")
    for f in fields(Settings):
        print(f"| `DARE_{f.name.upper()}` | {f.default if f.default != '' else '(empty)'} | {f.metadata['why']} |")

"""Whether a kymo page is served as a browser would load it, and knows the profile of its address.

usage: page_answers.py URL#/profile/NAME
"""

from html.parser import HTMLParser
import json
import sys
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen


class Parts(HTMLParser):
    """What a page loads: scripts and style sheets."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "script" and "src" in attrs:
            self.addresses.append(attrs["src"])
        elif tag == "link" and attrs.get("rel") == "stylesheet":
            self.addresses.append(attrs["href"])


def get(address):
    try:
        with urlopen(address, timeout=60) as answer:
            return answer.read()
    except HTTPError as e:
        sys.exit(f"{address}: {e.code} {e.read(1000).decode(errors='replace')}")


def main():
    page, _, name = sys.argv[1].partition("#/profile/")
    parts = Parts()
    parts.feed(get(page).decode())
    assert parts.addresses, "the page loads nothing"
    for address in parts.addresses:
        print(f"{address}: {len(get(urljoin(page, address)))} bytes")
    tables = json.loads(get(urljoin(page, f"api/v1/profiles/{name}/overview")))["tables"]
    assert tables["Instruction"] > 0, tables
    print(f"{name}: {tables['Instruction']} instructions")


if __name__ == "__main__":
    main()

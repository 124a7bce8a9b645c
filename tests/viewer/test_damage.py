"""Files that are damaged inside, or become so while the page is open: the rest is shown, and the page says what is not."""

import shutil

import pytest
from playwright.sync_api import expect

from conftest import start_view, stop
from driver import Viewer


def damage(path):
    """All values, in place; the footer is whole."""
    with open(path, "r+b") as file:
        data = file.read()
        end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        file.seek(4)
        file.write(b"\xff" * (end - 4))


@pytest.fixture
def place(profiles, tmp_path):
    return shutil.copytree(profiles / "attention", tmp_path / "attention")


@pytest.fixture
def serve(context, place, tmp_path):
    processes = []

    def start():
        process, base = start_view([place], tmp_path)
        processes.append(process)
        return Viewer(context.new_page(), base)

    yield start
    for process in processes:
        stop(process)


def test_a_table_is_damaged_before_and_one_while_the_page_is_open(serve, place):
    damage(place / "LevelOfDetail.parquet")
    viewer = serve()
    viewer.open("attention")
    menu = viewer.page.get_by_role("button", name="Damaged tables")
    menu.click()
    told = viewer.page.locator(".missing li")
    expect(told.filter(has_text="LevelOfDetail")).to_contain_text("LevelOfDetail.parquet: cannot be read: column ")
    viewer.page.keyboard.press("Escape")
    assert sum(viewer.drawn()) > 100
    damage(place / "Flow.parquet")
    viewer.page.goto(f"{viewer.base}/#/profile/attention?event=Instruction:500")
    viewer.widget("Event Details").locator("table.fields").first.wait_for()
    viewer.widget("Event Details").get_by_role("tab", name="Dependencies").click()
    expect(viewer.widget("Event Details")).to_contain_text("since that was met, everything is shown without this table")
    menu.click()
    expect(told.filter(has_text="Flow")).to_contain_text("since that was met, everything is shown without this table")
    viewer.page.reload()
    viewer.settle()
    menu.click()
    expect(told.filter(has_text="Flow.parquet").first).to_contain_text("cannot be read: column ")


def test_a_profile_whose_instructions_are_damaged_says_so(serve, place):
    damage(place / "Instruction.parquet")
    viewer = serve()
    viewer.open("attention", event="Instruction:500")
    expect(viewer.widget("Event Details").locator(".error")).to_contain_text("Instruction.parquet: cannot be read: column ")

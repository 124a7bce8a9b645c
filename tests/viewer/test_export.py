"""Export to CSV: options and file names of the dialog, and that the files hold the visible range."""

import csv

NAMES = {
    "Instructions": "Instruction.csv",
    "DMA transfers (aggregated by queue)": "DmaPacketAggregated.csv",
    "DMA packets (individual)": "DmaPacket.csv",
    "Collective (CC) ops": "CcInstruction.csv",
    "Semaphore updates": "SemaphoreUpdate.csv",
}


def dialog(viewer):
    viewer.page.locator(".timeline .toolbar").get_by_role("button", name="Export to CSV").click()
    return viewer.page.get_by_role("dialog", name="Export to CSV")


def test_the_dialog_offers_the_tables_and_samples_by_default(viewer):
    viewer.open("reduce")
    box = dialog(viewer)
    for name, file in NAMES.items():
        label = box.locator("label", has_text=name)
        assert file in label.inner_text()
        assert label.get_by_role("checkbox").is_checked()
    assert box.get_by_label("Sample at the timeline’s resolution").is_checked()


def test_what_a_profile_lacks_cannot_be_chosen(viewer):
    viewer.open("attention")
    assert dialog(viewer).locator("label", has_text="Collective (CC) ops").get_by_role("checkbox").is_disabled()


def test_each_table_is_a_file_of_the_visible_range(full, tables, tmp_path):
    full.open("attention", **{"from": 150000, "to": 160000})
    box = dialog(full)
    for name in ("DMA packets (individual)", "Semaphore updates"):
        box.locator("label", has_text=name).get_by_role("checkbox").uncheck()
    box.get_by_label("Sample at the timeline’s resolution").uncheck()
    files = []
    full.page.on("download", lambda file: files.append(file))
    box.get_by_role("button", name="Export", exact=True).click()
    assert box.count() == 0, "the dialog closes"
    for _ in range(100):
        if len(files) == 2:
            break
        full.page.wait_for_timeout(100)
    assert sorted(file.suggested_filename for file in files) == ["DmaPacketAggregated.csv", "Instruction.csv"]
    for file in files:
        table = file.suggested_filename.removesuffix(".csv")
        file.save_as(tmp_path / file.suggested_filename)
        rows = list(csv.DictReader((tmp_path / file.suggested_filename).open()))
        assert next(iter(rows[0])) == "timeline_track"
        wanted = tables("attention", f"select * from {table} where end_ts >= 150000 and start_ts <= 160000")
        assert abs(len(rows) - len(wanted)) <= 2

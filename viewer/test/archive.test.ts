import { describe, expect, it } from "vitest";
import { isArchive, opened, unpacked } from "../src/manage/archive";

// What GNU tar makes of a folder with a long path, a name that is not ASCII, an empty file and a link, in three formats.
const TARS = {
  gnu:
    "H4sIAAAAAAACA+3aTU6DQBjGcdaegsQ1X8MMs/UAvQSRsTZSIBRTexpv4QV6MSfVjZB+oBkU+/9taAK7h3nmhRJG67owZeQ5FFtaqcPR6h+H" +
    "vxN7ufB85U3gedPlre97bV13p647d36mws/8l+3+bf9qwmbnJv9MymP5p1r0809lmnl+TP7OvQAAgNn77vyXBw91WZg22K66xyAPyrpaBlW+" +
    "NtFvzP9KxYr5f8r5/3j+P78zRucvhJAx+f/1/C+9M8bnn2mdkv80+YfR3cIGt1hVTw7f/5x4/o+TLOn1f5LFiecvyH+m69/lNIG55T+6/9NE" +
    "pvT/1fS/SNJ+/yut6f//2P/sDPQ//U//f+l/qYbzv6T/r6v/2Rnof/r/KvtfZcP+z+h/+v/jzJNpK1M6+TSJ/p+o/0+tf7s7DPtf8P3XFG79" +
    "wpjmhoVw5eu/tNu/q4Y9rHCtR/z/b8c/+/wnItPdR02+2WwL1r/b/M266XaOboDz/d/PX0gV0/8AAAAAAAAAAAAAAACXeAdSVtIKAFAAAA==",
  pax:
    "H4sIAAAAAAACA+2a3W6CMBiGe7yrINkxgl9b6snOd7hbaEanZigEWNSr2V3sBryx1cVlE6KOTTqB94lJTUpizNvv6Q8dBYs0NknAWiS0KCk/" +
    "Wku1rX8fE0linmQOeClKndufz9O0PPXcuf7qn+sIo33+D3p9b3Rs8iKY5tu37asZZZsL5h8JcTx/ziv5C/th3tpl/myYkPIyXc7uPsfBV/g3" +
    "DPSfeu7t+P9E/XNFVf8LxSPmhS7rf6D+XwMAAACg8/x2/af9pzSx2z9/NS9nvvaTdDn1l3phgsus/5rt/1UYSuz/Xa7/j+f/95HROH/iUoTI" +
    "/9rz/+nIaJw/D0lx5N/d/L+dJtqHzp3/jRVV6l8pIXH+54Ix0eEB4GUHwvEeHC/2uP4Pe5r73+of/u9V/qf8TyRq/t/N//C/A/+Lyf/4HzMD" +
    "/A//w/87/8uouv/bNfC/C/8rcW3+x8wA/8P/Q/J/pOr+J/jfif8nvDv+fzb50iS4m9az+rezQ93/hPtfLrj1YmMy1NPQ6z+ZL59bufy5Lw2l" +
    "VIP3/zLignkUmPIxyHRRrGLUf7v5m0VWbloaAOf9X82fKxnC/wAAAAAAAAAAAAAAAAAAAAAA0IR3WoW9AABQAAA=",
  ustar:
    "H4sIAAAAAAACA+2Z3U6DMBiGe+xVkHgMdP2h19NIncuAksIydzXehTewG5MZdyAGkWnrmr3PSUloIOR5++WjzfLalqbKiUfogJLyfRwYj1+v" +
    "V4xJRhJJArDreu2G1ztr++/mzd0ff1wkZB/+1+74enwxWXvw478QYso/V2zsXyhekITCv3eeAQAAABA9l/Z/On20VWlcut/0T6lOK9us00bX" +
    "Jv+P/l9RKtH/h+z/p/3/PhmL/TMuBYX/a/f/02Qs9s8pUxz+Q+Cz7l/uXyihIvfvZWHdiH+xkpTBf4hkXKf/YugA4D9EMqYfuDWuMdVfbAjP" +
    "7P+e0vHZvzzNj3z/NxL/90lpTHtHwG1yjmm1abZeDn/O9V+pBf//suDD+me56R/yVnfdvkT/79e/qdv+4CkA8/V/7J8rSXH+BwAAAADggzen" +
    "9iGRACgAAA==",
};
const DEEP = `model/${"a-folder-with-a-long-name/".repeat(6)}kernel.py`;

type Bytes = Uint8Array<ArrayBuffer>;

function joined(...parts: Bytes[]): Bytes {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

async function gzip(data: Bytes): Promise<Bytes> {
  const packed = new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

function header(name: string, size: number, type = "0"): Bytes {
  const block = new Uint8Array(512);
  const put = (text: string, at: number) => block.set(new TextEncoder().encode(text), at);
  put(name, 0);
  put(`${size.toString(8).padStart(11, "0")}\0`, 124);
  put("        ", 148);
  put(type, 156);
  put("ustar\0", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

function entry(name: string, text: string, type = "0"): Bytes {
  const data = new Uint8Array(Math.ceil(text.length / 512) * 512);
  data.set(new TextEncoder().encode(text));
  return joined(header(name, text.length, type), data);
}

async function file(data: Bytes, name = "code.tar.gz"): Promise<File> {
  return new File([name.endsWith(".tar") ? data : await gzip(data)], name);
}

const end = new Uint8Array(1024);

describe("an archive of source texts", () => {
  it("is told by its name", () => {
    expect(["a.tar.gz", "A.TGZ", "b.tar", "c.py", "tar.gz", "x.gz"].map(isArchive)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  for (const [format, packed] of Object.entries(TARS))
    it(`holds the files that tar --format=${format} has put in, and no links`, async () => {
      const data = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
      const found = await unpacked(new File([data], "code.tar.gz"));
      const texts = Object.fromEntries(await Promise.all(found.map(async (one) => [one.path, await one.file.text()])));
      expect(texts).toEqual({ [DEEP]: "# deep\n", "model/empty.py": "", "model/größe.py": "x".repeat(2000) });
      expect(found.every(({ source }) => source)).toBe(true);
    });

  it("may be not packed", async () => {
    const found = await unpacked(await file(joined(entry("a/b.py", "1"), end), "x.tar"));
    expect(found.map(({ path, file: one }) => [path, one.name])).toEqual([["a/b.py", "b.py"]]);
  });

  for (const path of ["../x.py", "a/../../x.py", "/etc/x.py", "a\\..\\x.py", "C:x.py", "a/..", "\x01.py"])
    it(`has no path out of it: ${JSON.stringify(path)}`, async () => {
      await expect(unpacked(await file(joined(entry(path, "x"), end)))).rejects.toThrow(
        "code.tar.gz: a path leads out",
      );
    });

  it("has no path out of it in a record of its own", async () => {
    for (const record of [entry("@", "../../x.py\0", "L"), entry("@", "18 path=../../x.py\n", "x")])
      await expect(unpacked(await file(joined(record, entry("x.py", "x"), end)))).rejects.toThrow("leads out");
  });

  it("unfolds to no more than is allowed", async () => {
    const limits = { bytes: 1 << 20, files: 3 };
    const bomb = joined(header("big", 64 << 20), new Uint8Array(64 << 20));
    expect((await gzip(bomb)).length).toBeLessThan(100_000);
    await expect(unpacked(await file(bomb), limits)).rejects.toThrow("unfolds to more than 1 MiB");
    const link = joined(header("big", 64 << 20, "2"), new Uint8Array(2 << 20));
    await expect(unpacked(await file(link), limits)).rejects.toThrow("unfolds to more than 1 MiB");
    const many = joined(...[..."abcd"].map((name) => entry(name, "1")));
    await expect(unpacked(await file(many), limits)).rejects.toThrow("more than 3 files");
    const name = joined(header("@", 5000, "L"), new Uint8Array(5120));
    await expect(unpacked(await file(name), limits)).rejects.toThrow("a name that is too long");
  });

  it("says what is wrong with it", async () => {
    const good = joined(entry("a.py", "1".repeat(700)), end);
    await expect(unpacked(await file(good.subarray(0, 800)))).rejects.toThrow("ends in the middle of a.py");
    await expect(unpacked(await file(new Uint8Array(600).fill(120)))).rejects.toThrow(/no tar archive|damaged/);
    await expect(unpacked(await file(end))).rejects.toThrow("no file in it");
    await expect(unpacked(new File(["no gzip"], "x.tgz"))).rejects.toThrow("x.tgz: it is no gzip file");
    const cut = await gzip(good);
    await expect(unpacked(new File([cut.subarray(0, cut.length - 20)], "x.tgz"))).rejects.toThrow("x.tgz: ");
  });

  it("is opened among sources alone, and one that is bad keeps none of the others away", async () => {
    const good = await file(joined(entry("a.py", "1"), end));
    const bad = new File(["x"], "bad.tgz");
    const picked = [good, bad, new File(["2"], "b.py")].map((one) => ({ file: one, path: one.name, source: true }));
    const { files, troubles } = await opened([...picked, { file: bad, path: "bad.tgz", source: false }]);
    expect(files.map(({ path }) => path)).toEqual(["a.py", "b.py", "bad.tgz"]);
    expect(troubles).toHaveLength(1);
  });
});

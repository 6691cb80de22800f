import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import {
  Engine,
  gzip,
  httpStore,
  httpUrl,
  memoryStore,
  memoryTarget,
  openVolume,
  readBox,
  type Volume,
} from "../src/index.ts";
import { nmPer, toNm } from "../src/sources/units.ts";
import { source, values, volumeOfCase } from "./formula.ts";

const text = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const whole = (volume: Volume, level = 0) =>
  readBox(volume, level, { lo: [0, 0, 0], hi: volume.levels[level].shape });

/** A store that a materialize wrote. */
async function written(format: "zarr2" | "zarr3", more: Parameters<typeof source>[2] = {}) {
  const from = source([11, 13, 9], [4, 5, 6], more);
  const engine = new Engine();
  engine.add(volumeOfCase(from));
  const target = memoryTarget();
  await engine.materialize("v", target, { format });
  return { from, files: target.files };
}

describe.each(["zarr2", "zarr3"] as const)("%s", (format) => {
  test("a written store is read back: values, place, name", async () => {
    const { from, files } = await written(format);
    const volume = await openVolume(memoryStore(files, "https://host/a/cell.zarr"));
    expect(volume).toMatchObject({ name: "cell", dtype: "uint8", kind: "image", channels: [] });
    expect(volume.levels[0]).toMatchObject({ voxelSize: [8, 8, 8], corner: [0, 0, 0], chunk: [4, 5, 6] });
    expect((await whole(volume)).data).toEqual(values(from, 0));
  });

  test("channels are kept whole, or one is selected", async () => {
    const { from, files } = await written(format, { channels: [3] });
    const all = await openVolume(memoryStore(files));
    expect(all.channels).toEqual([3]);
    expect((await whole(all)).data).toEqual(values(from, 0));
    const one = await openVolume(memoryStore(files), { select: { c: 1 } });
    expect(one.channels).toEqual([]);
    const plane = 11 * 13 * 9;
    expect((await whole(one)).data).toEqual(values(from, 0).slice(plane, 2 * plane));
    await expect(openVolume(memoryStore(files), { select: { c: 3 } })).rejects.toThrow(/select\.c is 3/);
    await expect(openVolume(memoryStore(files), { select: { t: 0 } })).rejects.toThrow(
      /select\.t: .* no such axis/,
    );
  });

  test("an array of the group, opened alone, has the group's place", async () => {
    const { files } = await written(format);
    const volume = await openVolume(memoryStore(files), { path: "0" });
    expect(volume.levels[0]).toMatchObject({ voxelSize: [8, 8, 8], corner: [0, 0, 0] });
  });

  test("64-bit ids are exact, and chunks not stored read as zeros", async () => {
    const { from, files } = await written(format, {
      dtype: "uint64",
      formula: { scale: "73000000000000001", inside: [{ lo: [0, 0, 0], hi: [3, 4, 5] }] },
    });
    const volume = await openVolume(memoryStore(files));
    expect(volume.kind).toBe("labels");
    expect((await whole(volume)).data).toEqual(values(from, 0));
    expect(await volume.chunk(0, [2, 2, 1])).toBeNull();
  });

  test("what is stored past the level's end does not come through", async () => {
    const { files } = await written(format);
    const key = format === "zarr2" ? "0/2/2/1" : "0/c/2/2/1";
    files.set(key, await gzip(new Uint8Array(4 * 5 * 6).fill(9)));
    const bytes = (await (await openVolume(memoryStore(files))).chunk(0, [2, 2, 1]))!;
    expect(bytes.filter((v) => v === 9).length).toBe(3 * 3 * 3);
  });
});

describe("zarr layouts of others", () => {
  const array = (more: object) =>
    text({
      zarr_format: 2,
      shape: [2, 3, 4],
      chunks: [2, 3, 4],
      dtype: "|u1",
      compressor: null,
      fill_value: 0,
      order: "C",
      filters: null,
      ...more,
    });

  test("x, y, z in the file become z, y, x", async () => {
    const files = new Map([
      [".zgroup", text({ zarr_format: 2 })],
      [
        ".zattrs",
        text({
          multiscales: [
            {
              axes: ["x", "y", "z"].map((name, i) => ({
                name,
                type: "space",
                unit: ["nanometer", "micrometer", "angstrom"][i],
              })),
              datasets: [
                {
                  path: "a",
                  coordinateTransformations: [
                    { type: "scale", scale: [4, 0.008, 400] },
                    { type: "translation", translation: [2, 0.004, 200] },
                  ],
                },
              ],
            },
          ],
        }),
      ],
      ["a/.zarray", array({})],
      ["a/0.0.0", Uint8Array.from({ length: 24 }, (_, i) => i)],
    ]);
    const volume = await openVolume(memoryStore(files));
    expect(volume.levels[0]).toMatchObject({ shape: [4, 3, 2], voxelSize: [40, 8, 4], corner: [0, 0, 0] });
    const { data } = await whole(volume);
    expect([...(data as Uint8Array)].slice(0, 6)).toEqual([0, 12, 4, 16, 8, 20]);
  });

  test("a cube of x, y, z is turned around too", async () => {
    const files = new Map([
      [".zarray", array({ shape: [2, 2, 2], chunks: [2, 2, 2] })],
      [".zattrs", text({ axes: ["x", "y", "z"] })],
      ["0.0.0", Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8])],
    ]);
    const volume = await openVolume(memoryStore(files));
    expect([...((await whole(volume)).data as Uint8Array)]).toEqual([1, 5, 3, 7, 2, 6, 4, 8]);
  });

  test.each([
    [{ dtype: "<c8" }, /complex|dtype|c8/i],
    [{ compressor: { id: "jxl" } }, /jxl/i],
    [{ shape: [2, 3] }, /axes are y, x; a volume needs z, y and x/],
  ])("%j is refused, naming it", async (more, message) => {
    const files = new Map([
      [".zarray", array(more)],
      ["0.0.0", new Uint8Array(24)],
    ]);
    const read = openVolume(memoryStore(files)).then((volume) => volume.chunk(0, [0, 0, 0]));
    await expect(read).rejects.toThrow(message);
  });

  test("nothing there, a group without levels, broken JSON", async () => {
    await expect(openVolume(memoryStore(new Map(), "https://h/x"))).rejects.toThrow(
      /https:\/\/h\/x is not a volume/,
    );
    const group = new Map([[".zgroup", text({ zarr_format: 2 })]]);
    await expect(openVolume(memoryStore(group))).rejects.toThrow(/group without levels/);
    await expect(openVolume(memoryStore(new Map([[".zarray", text("{,")]])))).rejects.toThrow(
      /\.zarray is no JSON/,
    );
  });
});

describe("n5", () => {
  /** A block: header and big-endian uint16 values. */
  function block(shapeXyz: number[], of: number[]): Uint8Array {
    const bytes = new Uint8Array(4 + 12 + of.length * 2);
    const view = new DataView(bytes.buffer);
    view.setUint16(2, 3);
    shapeXyz.forEach((n, i) => {
      view.setUint32(4 + 4 * i, n);
    });
    of.forEach((v, i) => {
      view.setUint16(16 + 2 * i, v);
    });
    return bytes;
  }
  const level = {
    dimensions: [5, 2, 1],
    blockSize: [4, 2, 1],
    dataType: "uint16",
    compression: { type: "raw" },
  };
  const blocks = new Map([
    ["raw/s0/0/0/0", block([4, 2, 1], [0, 1, 2, 3, 10, 11, 12, 13])],
    ["raw/s0/1/0/0", block([1, 2, 1], [4, 14])],
  ]);

  test("blocks are big endian, cropped at the edge, x first in the file", async () => {
    const files = new Map([
      ...blocks,
      ["raw/s0/attributes.json", text({ ...level, pixelResolution: { dimensions: [4, 5, 40], unit: "nm" } })],
    ]);
    const volume = await openVolume(memoryStore(files), { path: "raw/s0" });
    expect(volume.levels[0]).toMatchObject({ shape: [1, 2, 5], voxelSize: [40, 5, 4] });
    expect([...((await whole(volume)).data as Uint16Array)]).toEqual([0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
  });

  test("levels s0, s1 with the group's resolution and scales", async () => {
    const files = new Map([
      ...blocks,
      [
        "raw/attributes.json",
        text({
          pixelResolution: [4, 4, 40],
          units: ["nm", "nm", "nm"],
          scales: [
            [1, 1, 1],
            [2, 2, 1],
          ],
          offset: [8, 4, 0],
        }),
      ],
      ["raw/s0/attributes.json", text(level)],
      ["raw/s1/attributes.json", text({ ...level, dimensions: [3, 1, 1] })],
    ]);
    const volume = await openVolume(memoryStore(files), { path: "raw" });
    expect(volume.levels.map((l) => l.voxelSize)).toEqual([
      [40, 4, 4],
      [40, 8, 8],
    ]);
    expect(volume.levels[0].corner).toEqual([0, 4, 8]);
  });

  test("compression that a browser lacks, and a damaged block, are named", async () => {
    const open = (more: object, bytes = blocks.get("raw/s0/0/0/0")!) =>
      openVolume(
        memoryStore(
          new Map([
            ["attributes.json", text({ ...level, ...more })],
            ["0/0/0", bytes],
          ]),
        ),
      );
    await expect(open({ compression: { type: "xz" } })).rejects.toThrow(/compression "xz" cannot be read/);
    await expect((await open({}, new Uint8Array(3))).chunk(0, [0, 0, 0])).rejects.toThrow(
      /0\/0\/0: has 3 bytes/,
    );
    await expect((await open({}, block([9, 2, 1], []))).chunk(0, [0, 0, 0])).rejects.toThrow(
      /a block of 1 x 2 x 9/,
    );
  });
});

describe("over HTTP", () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
  });
  async function serve(listener: RequestListener): Promise<string> {
    server = createServer(listener);
    await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  const files = async () => (await written("zarr2")).files;

  test("missing chunks are zeros; a chunk refused in a readable array too", async () => {
    const stored = await files();
    for (const status of [404, 403]) {
      const url = await serve((request, response) => {
        const bytes = stored.get(request.url!.slice(1));
        response.writeHead(
          bytes && request.url !== "/0/0/0/0" ? 200 : request.url === "/0/0/0/0" ? status : 404,
        );
        response.end(request.url === "/0/0/0/0" ? undefined : bytes);
      });
      const volume = await openVolume(url);
      expect(await volume.chunk(0, [0, 0, 0])).toBeNull();
      expect(await volume.chunk(0, [0, 0, 1])).not.toBeNull();
      server!.close();
    }
  });

  test("metadata refused is an error that names it", async () => {
    const url = await serve((_, response) => response.writeHead(403).end());
    await expect(openVolume(url)).rejects.toThrow(/HTTP 403/);
  });

  test("a broken connection and 5xx are tried again, and are never zeros", async () => {
    const stored = await files();
    let failures = 0;
    const url = await serve((request, response) => {
      if (request.url === "/0/0/0/0" && failures++ < 2) {
        if (failures === 1) request.socket.destroy();
        else response.writeHead(503).end();
        return;
      }
      if (request.url === "/0/0/0/1") {
        response.writeHead(500).end();
        return;
      }
      const bytes = stored.get(request.url!.slice(1));
      response.writeHead(bytes ? 200 : 404).end(bytes);
    });
    const volume = await openVolume(url);
    expect(await volume.chunk(0, [0, 0, 0])).not.toBeNull();
    await expect(volume.chunk(0, [0, 0, 1])).rejects.toThrow(/0\/0\/0\/1: the host answered HTTP 500/);
  }, 20_000);

  test("a web page in place of metadata is no metadata", async () => {
    const stored = await files();
    const url = await serve((request, response) => {
      const bytes = stored.get(request.url!.slice(1));
      response
        .writeHead(200, bytes ? {} : { "content-type": "text/html" })
        .end(bytes ?? "<!doctype html><p>hi");
    });
    expect((await openVolume(url)).levels[0].shape).toEqual([11, 13, 9]);
  });

  test("a host that lets no other origin read is told apart, saying what to ask for", async () => {
    const refused = (() => Promise.reject(new TypeError("Failed to fetch"))) as typeof fetch;
    await expect(openVolume(httpStore("https://h/x", refused))).rejects.toThrow(
      /CORS.*Access-Control-Allow-Origin/,
    );
  });

  test("ranges: part of a file, its end, and a host that sends all of it", async () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
    for (const honours of [true, false]) {
      const url = await serve((request, response) => {
        const [, from, to] = /bytes=(\d*)-(\d*)/.exec(request.headers.range ?? "")!;
        const part = from ? bytes.slice(+from, +to + 1) : bytes.slice(-to);
        response.writeHead(honours ? 206 : 200).end(honours ? part : bytes);
      });
      const store = httpStore(url);
      expect([...(await store.range!("a", { offset: 10, length: 3 }))!]).toEqual([10, 11, 12]);
      expect([...(await store.range!("a", { suffix: 2 }))!]).toEqual([98, 99]);
      server!.close();
    }
  });

  test("the digest changes with the ETag of the metadata", async () => {
    const stored = await files();
    let etag = '"1"';
    const url = await serve((request, response) => {
      const bytes = stored.get(request.url!.slice(1));
      response.writeHead(bytes ? 200 : 404, { etag }).end(bytes);
    });
    const [first, second] = [await openVolume(url), await openVolume(url)];
    etag = '"2"';
    const third = await openVolume(url);
    expect(second.digest).toBe(first.digest);
    expect(third.digest).not.toBe(first.digest);
  });

  test.each([
    ["s3://bucket/a/b.zarr", "https://bucket.s3.amazonaws.com/a/b.zarr"],
    ["s3://my.bucket/a/", "https://s3.amazonaws.com/my.bucket/a"],
    ["gs://bucket/a", "https://storage.googleapis.com/bucket/a"],
    ["https://h/a/", "https://h/a"],
  ])("%s is %s", (given, url) => {
    expect(httpUrl(given)).toBe(url);
  });
});

test("units", () => {
  expect(toNm(0.05, "micrometer")).toBe(50);
  expect(toNm(40, "angstrom")).toBe(4);
  expect(toNm(3.24, undefined)).toBe(3.24);
  expect(nmPer("furlong")).toBeUndefined();
});

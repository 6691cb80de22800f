// Reads every level of an OME-NGFF group with zarrita, and writes each one's values to a file.
//
//     node zarrita.mjs WEB URL FOLDER
//
// WEB is the folder whose node_modules has zarrita. Prints one JSON list: dtype and shape of each level.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [web, url, folder] = process.argv.slice(2);
const zarr = await import(pathToFileURL(join(web, "node_modules", "zarrita", "dist", "src", "index.js")));

const group = await zarr.open(new zarr.FetchStore(url), { kind: "group" });
const attributes = group.attrs.ome ?? group.attrs;
const told = [];
for (const [i, { path }] of attributes.multiscales[0].datasets.entries()) {
  const array = await zarr.open(group.resolve(path), { kind: "array" });
  const { data, shape, stride } = await zarr.get(array);
  const c = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  if (String(c) !== String(stride)) throw new Error(`${path}: strides ${stride} of shape ${shape}`);
  const values = array.dtype === "bool" ? Uint8Array.from(data, Number) : data;
  writeFileSync(join(folder, String(i)), new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  told.push({ dtype: array.dtype, shape });
}
console.log(JSON.stringify(told));

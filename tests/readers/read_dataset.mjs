// Reads datasets with h5wasm, the engine of H5Web: node read_dataset.mjs FILE DATASET …
// Prints a JSON object: for each dataset its shape, type, the SHA-256 of its values as bytes, and its attributes.
import { createHash } from "node:crypto";
import { basename, dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import h5wasm from "h5wasm/node";

const [path, ...datasets] = process.argv.slice(2);
const module = await h5wasm.ready;
const plugins = dirname(fileURLToPath(import.meta.resolve("h5wasm-plugins")));
module.insert_plugin_search_path(resolve(plugins, "plugins"), 0);
const file = new h5wasm.File(resolve(path), "r");
const told = {};
for (const name of datasets) {
  const dataset = file.get(name);
  const values = dataset.value;
  const bytes = ArrayBuffer.isView(values)
    ? createHash("sha256").update(Buffer.from(values.buffer, values.byteOffset, values.byteLength)).digest("hex")
    : null;
  const attributes = Object.fromEntries(
    Object.entries(dataset.attrs).map(([key, attribute]) => [key, attribute.value]),
  );
  told[name] = {
    shape: dataset.shape,
    type: dataset.dtype,
    sha256: bytes,
    value: ArrayBuffer.isView(values) ? null : values,
    attributes,
  };
}
file.close();
console.log(
  JSON.stringify({ file: basename(path), folder: dirname(path), datasets: told }, (_, value) =>
    typeof value === "bigint" ? Number(value) : ArrayBuffer.isView(value) ? Array.from(value) : value,
  ),
);

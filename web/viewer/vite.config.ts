/** The bundle that the Python viewer serves: every file beside the page, with names that Python's server accepts. */

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { neuroglancer } from "./neuroglancer.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: at("./python"),
  base: "./",
  plugins: neuroglancer(),
  resolve: { conditions: ["neuroglancer/python", "module", "browser", "production"] },
  build: {
    target: "es2022",
    outDir: at("./dist"),
    emptyOutDir: true,
    assetsDir: "",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 4000,
    license: { fileName: "LICENSES.md" },
  },
  worker: { format: "es", plugins: () => neuroglancer() },
});

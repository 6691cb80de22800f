import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { neuroglancer } from "../viewer/neuroglancer.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: at("."),
  base: "./",
  plugins: neuroglancer(),
  // The engine's source, not its build: one compilation for the page.
  resolve: {
    alias: [
      // The worker passes its own build of onnxruntime to the engine; the one with WebGPU stays out.
      { find: /^onnxruntime-web$/, replacement: "onnxruntime-web/wasm" },
      { find: /^@chunkloom\/engine$/, replacement: at("../engine/src/index.ts") },
      { find: /^@chunkloom\/engine\/model$/, replacement: at("../engine/src/ops/model.ts") },
    ],
  },
  build: {
    target: "es2022",
    outDir: at("dist"),
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      input: { index: at("index.html"), sw: at("src/sw.ts") },
      // The service worker keeps its name, and lies at the root of its scope.
      output: { entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
  worker: { format: "es", plugins: () => neuroglancer() },
});

import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { neuroglancer } from "../viewer/neuroglancer.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The bundled model, as files beside the page. */
function sampleModel(): Plugin {
  const name = "fibsem-membrane";
  const from = at(`../../src/chunkloom/models/bundled/${name}`);
  const { weights } = JSON.parse(readFileSync(`${from}/model.json`, "utf8"));
  return {
    name: "chunkloom-sample-model",
    closeBundle() {
      const to = at(`dist/models/${name}`);
      mkdirSync(to, { recursive: true });
      for (const file of ["model.json", weights, "README.md"])
        copyFileSync(`${from}/${file}`, `${to}/${file}`);
    },
  };
}

/** Licences of what only workers bundle: Vite lists those of the page. */
function licencesOfWorkers(): Plugin {
  return {
    name: "chunkloom-licences",
    closeBundle() {
      const listed = [
        "onnxruntime-web",
        "onnxruntime-common",
        "zarrita",
        "@zarrita/storage",
        "numcodecs",
        "fflate",
      ].map((name) => {
        const folder = at(`../node_modules/${name}`);
        const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
        const file = `${folder}/LICENSE`;
        return `## ${name} - ${version} (${license})\n\n${existsSync(file) ? readFileSync(file, "utf8") : ""}\n`;
      });
      appendFileSync(at("dist/LICENSES.md"), `\n${listed.join("\n")}`);
    },
  };
}

export default defineConfig({
  root: at("."),
  base: "./",
  plugins: [...neuroglancer(), sampleModel(), licencesOfWorkers()],
  // The engine's source, not its build: one compilation for the page.
  resolve: {
    alias: [
      // The model's worker passes its own build of onnxruntime to the engine: WASM alone, or with WebGPU.
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
    license: { fileName: "LICENSES.md" },
    rolldownOptions: {
      input: { index: at("index.html"), sw: at("src/sw.ts") },
      // The service worker keeps its name, and lies at the root of its scope.
      output: { entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
  worker: { format: "es", plugins: () => neuroglancer() },
});

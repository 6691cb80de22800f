/** What Neuroglancer's npm package needs of Vite; without it the build "succeeds" with empty workers. */

import type { Plugin } from "vite";

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" viewBox="0 0 24 24">' +
  '<path d="M4 6h16M4 12h16M4 18h16" stroke="#000" fill="none"/></svg>';

/** Three icons that the installed ikonate lacks, and worker addresses that Vite recognizes (it does not see past a comment). */
export function neuroglancer(): Plugin[] {
  return [
    {
      name: "neuroglancer-icons",
      enforce: "pre",
      resolveId(id) {
        const icon = /^ikonate\/icons\/(code-alt|controls-alt|layers)\.svg\?raw$/.exec(id);
        return icon ? `\0icon:${icon[1]}` : undefined;
      },
      load(id) {
        return id.startsWith("\0icon:") ? `export default ${JSON.stringify(ICON)}` : undefined;
      },
    },
    {
      name: "neuroglancer-workers",
      enforce: "pre",
      transform(code, id) {
        if (!/neuroglancer\/lib\/.*\.js/.test(id) || !code.includes("new Worker(")) return undefined;
        const worker = /new Worker\(\s*\/\*[^*]*\*\/\s*new URL\(\s*("[^"]+"),\s*import\.meta\.url\s*\),/g;
        return { code: code.replace(worker, "new Worker(new URL($1, import.meta.url),"), map: null };
      },
    },
  ];
}

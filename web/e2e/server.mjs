/** Serves folders over HTTP, as a static host does: CORS (or none), no caching surprises, isolated pages. */

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
};
const MORE = { ".wasm": "application/wasm", ".json": "application/json", ".svg": "image/svg+xml" };

/** `roots`: folder by first path segment ("" for the rest). `files`: bytes by path. Gives the address and a stop. */
export async function serve(roots, files = {}, { cors = true } = {}) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://h").pathname)).replace(/^\/+/, "");
    const headers = {
      ...(cors ? { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" } : {}),
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
    };
    if (files[path]) {
      response.writeHead(200, headers).end(files[path]);
      return;
    }
    const [first, ...rest] = path.split("/");
    const file =
      first in roots && first !== "" ? join(roots[first], ...rest) : join(roots[""], path || "index.html");
    let size;
    try {
      const stat = statSync(file);
      if (!stat.isFile()) throw new Error("no file");
      size = stat.size;
    } catch {
      response.writeHead(404, headers).end();
      return;
    }
    const type = { ...TYPES, ...MORE }[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { ...headers, "content-type": type, "content-length": size });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

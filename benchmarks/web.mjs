/**
 * The browser engine beside bare loops, in Node and in Chromium, in one run. Targets: pass-through materialize at least
 * 0.7 x a bare zarrita read and write loop; ONNX tiles of the sample model at least 0.9 x a bare onnxruntime-web loop
 * (the tiny model shows the overhead per tile); first raw chunk from the service worker within 2 s of navigation.
 *
 * `cd web && npm ci && npm run build && cd .. && node benchmarks/web.mjs`
 */

await import("../web/benchmark/node.mjs");

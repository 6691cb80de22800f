import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["engine/test/**/*.test.ts"], pool: "threads", maxWorkers: 2, testTimeout: 30_000 },
});

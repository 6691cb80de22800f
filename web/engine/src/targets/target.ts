/** Where a store is written to: files by key, each put whole. */

export interface Target {
  /** How messages name it. */
  readonly name: string;
  /** Writes one file, whole or not at all. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** What is there, or null. Absent where a target cannot be read (a download). */
  get?(key: string): Promise<Uint8Array | null>;
  /** Whether each key can be written only once. Such a target shows by itself that it is unfinished. */
  readonly writeOnce?: boolean;
  /** Called once, when every file is in. */
  close?(): Promise<void>;
  /** Called instead of `close` when the run stopped. What was written stays where that is possible. */
  abort?(reason: unknown): Promise<void>;
}

import type { Payload } from "../contract/checkpoint.js";

/** So many bodies are known at a time, none longer than this: a few megabytes at the most. */
const MAX_BODIES = 16;
const MAX_LENGTH = 64 * 1024;

/**
 * Texts whose digest was computed not long ago, by it. What a storage gives is compared with them, which takes a
 * fraction of the time that SHA-256 takes, and proves as much: the same text has the same digest. So a program that
 * asks for `latest` again and again, or for what it has just saved, doesn't pay for the same digest each time.
 */
export class KnownBodies {
  readonly #bodies = new Map<string, string>();

  /** Whether this very text is known to have this digest. */
  has({ body, sha256 }: Payload): boolean {
    return typeof body === "string" && this.#bodies.get(sha256) === body;
  }

  /** @param payload - Its digest has just been computed from its body. */
  add({ body, sha256 }: Payload): void {
    if (typeof body !== "string" || body.length > MAX_LENGTH) return;
    // The oldest goes first; one that is met again is new again.
    this.#bodies.delete(sha256);
    this.#bodies.set(sha256, body);
    const [oldest] = this.#bodies.keys();
    if (this.#bodies.size > MAX_BODIES && oldest !== undefined) this.#bodies.delete(oldest);
  }
}

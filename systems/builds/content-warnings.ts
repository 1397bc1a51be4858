import type { Logger } from "../../src/manager/logger.js";
import type { LargeText } from "./large-texts.js";

/** So many are named in one warning, and so many places are remembered. */
const NAMED_AT_ONCE = 5;
const MAX_REMEMBERED = 10_000;

/** Warns of texts that are likely to be contents of files: once for each place, since auto-save comes back to it. */
export class ContentWarnings {
  readonly #logger: Logger;
  readonly #warned = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** @param subject - What holds the texts: `Checkpoint c1 of build "b"`. */
  warn(buildId: string, subject: string, largeTexts: readonly LargeText[]): void {
    const news = largeTexts.filter(({ path }) => !this.#warned.has(placeOf(buildId, path)));
    if (news.length === 0) return;
    if (this.#warned.size + news.length > MAX_REMEMBERED) this.#warned.clear();
    for (const { path } of news) this.#warned.add(placeOf(buildId, path));

    const named = news.slice(0, NAMED_AT_ONCE).map(({ path, bytes }) => `${path} (${sizeText(bytes)})`);
    const more = news.length > NAMED_AT_ONCE ? ` and ${news.length - NAMED_AT_ONCE} more` : "";
    this.#logger.warn(
      { buildId, largeTexts: news },
      `${subject} was saved with long texts: ${named.join(", ")}${more}. If they are contents of files, save the paths in ` +
        "their place: every checkpoint keeps a copy. `warnAboveBytes` says from which size on this is said",
    );
  }
}

function placeOf(buildId: string, path: string): string {
  return JSON.stringify([buildId, path]);
}

function sizeText(bytes: number): string {
  return bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 1024)} KiB`;
}

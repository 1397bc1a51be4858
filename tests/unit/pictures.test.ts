import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");
const PICTURES = join(ROOT, "docs", "pictures");
/** The picture made by svg-term. The others are drawn manually or by bench/peers/plot.mjs. */
const RECORDING = "recording.svg";
const PAGES = ["README.md", "cli/README.md", ...pagesIn("docs")];

const names = readdirSync(PICTURES).filter((name) => name.endsWith(".svg"));
const drawn = names.filter((name) => name !== RECORDING).map((name) => ({ name, svg: picture(name) }));
const shown = PAGES.flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/!\[([^\]]*)\]\((?!https?:)([^)]+\.svg)\)/g)].map(
    ([, alt = "", path = ""]) => ({ page, alt, file: join(ROOT, dirname(page), path) }),
  ),
);

function pagesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name));
}

function picture(name: string): string {
  return readFileSync(join(PICTURES, name), "utf8");
}

/** Returns the first group of a pattern in a text, or "". */
function partOf(text: string, pattern: RegExp): string {
  return pattern.exec(text)?.[1] ?? "";
}

describe("the pictures", () => {
  it("are each on a page, under a text that says what they show", () => {
    expect(shown.filter(({ file, alt }) => !existsSync(file) || alt === "")).toEqual([]);
    expect(new Set(shown.map(({ file }) => basename(file)))).toEqual(new Set(names));
  });

  it.each(drawn)("$name is small, stands alone, and is told to those who can't see it", ({ svg }) => {
    expect(svg.length).toBeLessThanOrEqual(15 * 1024);
    expect(svg).not.toMatch(/<script|<image|@import|href="|url\((?!#)/);
    expect(svg).toMatch(/^<svg [^>]*role="img">\n<title>[^<]+<\/title>\n<desc>[^<]+<\/desc>/);
  });

  it("share one palette, light and dark", () => {
    const palettes = drawn.map(({ svg }) =>
      partOf(svg, /<style>\n(svg \{.*?\n\}\n@media \(prefers-color-scheme: dark\) \{.*?\n\}\n)/s),
    );

    expect(new Set(palettes).size).toBe(1);
    expect(palettes[0]).toContain("--paper");
    for (const { name, svg } of drawn) {
      const outside = svg.replace(palettes[0] ?? "", "");
      expect(outside, name).not.toMatch(/#[0-9a-f]{6}\b|rgb\(/);
    }
  });

  it("keep the labels of the peers apart", () => {
    const panels = picture("peers.svg").split('<text class="bold" x="78"').slice(1);

    for (const panel of panels) {
      const heights = [...panel.matchAll(/<text(?: class="bold")? x="452" y="([\d.]+)">/g)].map(([, y]) => Number(y));
      expect(heights).toHaveLength(8);
      const gaps = heights.slice(1).map((y, index) => y - (heights[index] ?? y));
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(16);
    }
    expect(panels).toHaveLength(2);
  });

  it("record the program, its kill, its timeline and the page, and don't move where nothing should", () => {
    const svg = picture(RECORDING);

    for (const shown of ["run.step", ">Killed<", ">interrupted<", "--timeline", '<image class="page"'])
      expect(svg).toContain(shown);
    expect(svg).toContain("prefers-reduced-motion");
  });
});

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { linkFindings } from "../../../site/link-check.mjs";
import { withSiteLinks } from "../../../site/links.mjs";
import { tempFolder } from "../../support/temp-folder.js";

describe("a page's links on the site", () => {
  const paths = new Map([
    ["docs/runs.md", "runs"],
    ["cli/README.md", "command"],
    ["examples/agent/README.md", "examples/agent"],
  ]);
  const onSite = (
    markdown: string,
    source = "docs/runs.md",
    home: string | undefined = "https://git.example/o/waymark",
  ) => withSiteLinks(markdown, { source, paths, home });

  it.each([
    ["to another page", "[the\ncommand](../cli/README.md#tables)", "[the\ncommand](./command.md#tables)"],
    ["to a file that is no page", "[a](../src/a.ts)", "[a](https://git.example/o/waymark/blob/HEAD/src/a.ts)"],
    ["to a picture", "![A run](pictures/run.svg)", "![A run](./pictures/run.svg)"],
    ["to a picture in HTML", '<img src="pictures/run.svg">', '<img src="./pictures/run.svg">'],
    ["in fenced code", "```md\n[a](../cli/README.md)\n```\n", "```md\n[a](../cli/README.md)\n```\n"],
    ["to another site, and within the page", "[a](https://a.example) [b](#b)", "[a](https://a.example) [b](#b)"],
  ])("%s", (_name, markdown, expected) => expect(onSite(markdown)).toBe(expected));

  it("of a page in a folder lead out of it", () =>
    expect(onSite("[runs](../../docs/runs.md)", "examples/agent/README.md")).toBe("[runs](../runs.md)"));

  it("leave their text alone if the repository's address is unknown", () =>
    expect(withSiteLinks("[a](../src/a.ts).", { source: "docs/runs.md", paths, home: undefined })).toBe("a."));
});

it("finds dead links, dead anchors, and pages that are more than two clicks away", async () => {
  const folder = await tempFolder();
  mkdirSync(join(folder, "deep"));
  const page = (name: string, html: string) => writeFileSync(join(folder, name), html);
  page("index.html", '<a href="/near.html">near</a> <a class="x" href="gone.html">gone</a>');
  page("near.html", '<h2 id="here">Here</h2> <a href="#here">a</a> <a href="#there">b</a> <a href="/deep/">deep</a>');
  page("deep/index.html", '<a href="../near.html#here">back</a> <a href="far.html">far</a>');
  page("deep/far.html", "");
  page("llms.txt", "[near](near.html) [lost](lost.md)");

  expect(linkFindings(folder)).toEqual([
    "Dead link in index.html: gone.html",
    "Dead link in near.html: #there",
    "More than two clicks away: deep/far.html",
    "Dead link in llms.txt: lost.md",
  ]);
});

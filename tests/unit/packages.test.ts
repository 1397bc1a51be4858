import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { findImports, listSourceFiles } from "../support/source-files.js";

const WAYMARK = manifestOf(".");

interface Manifest {
  readonly name: string;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** The packages, with the folders of their sources and whether they may use `waymark/kit`. */
const PACKAGES = [
  { folder: ".", sources: ["src", "adapters", "config", "conformance", "systems", "telemetry", "testing"], kit: false },
  { folder: "runners", sources: ["runners/src"], kit: true },
  { folder: "cli", sources: ["cli/src"], kit: true },
  ...readdirSync("examples").map((name) => {
    return { folder: `examples/${name}`, sources: [`examples/${name}`], kit: false };
  }),
];

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** The imports of a package's file that its package doesn't offer it: another package's file, or an undeclared package. */
function strayImports(folder: string, kit: boolean, file: string, text: string): string[] {
  const { name, dependencies, optionalDependencies, peerDependencies } = manifestOf(folder);
  const declared = { ...dependencies, ...optionalDependencies, ...peerDependencies };
  return findImports(text).filter((specifier) => {
    if (specifier.startsWith("node:")) return false;
    if (specifier.startsWith(".")) return !isInside(folder, normalize(join(dirname(file), specifier)));
    const [, owner = specifier] = /^((?:@[^/]+\/)?[^/]+)/.exec(specifier) ?? [];
    if (owner === name || !(owner in declared)) return true;
    const entry = `.${specifier.slice(owner.length)}`;
    if (owner === WAYMARK.name) return !(entry in (WAYMARK.exports ?? {})) || (entry === "./kit" && !kit);
    return false;
  });
}

/** The SDK's own folders, which are in the repository's root next to the other packages. */
function isInside(folder: string, path: string): boolean {
  if (folder !== ".") return path.startsWith(`${folder}/`);
  return /^(src|adapters|config|conformance|systems|telemetry|testing)\//.test(path);
}

describe("a package imports its own files, and the entries of packages that it declares", () => {
  it.each(PACKAGES)("in $folder", ({ folder, sources, kit }) => {
    const files = sources.flatMap((source) => listSourceFiles(source));
    const stray = files.flatMap((file) =>
      strayImports(folder, kit, file, readFileSync(file, "utf8")).map((to) => `${file} imports ${to}`),
    );
    expect(files.length).toBeGreaterThan(0);
    expect(stray).toEqual([]);
  });

  it.each([
    ["runners", true, "runners/src/prp/a.ts", "../../../systems/run-lock.js"],
    ["cli", true, "cli/src/a.ts", "waymark/dist/src/index.js"],
    ["cli", true, "cli/src/a.ts", "yaml"],
    ["examples/migration", false, "examples/migration/src/a.ts", "waymark/kit"],
    [".", false, "src/a.ts", "waymark"],
    [".", false, "systems/prp/a.ts", "../../runners/src/prp/coder.js"],
  ])("and the check finds a forbidden import in %s", (folder, kit, file, specifier) => {
    expect(strayImports(folder, kit, file, `import { x } from "${specifier}";`)).toEqual([specifier]);
  });
});

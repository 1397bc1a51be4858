import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";

/** Packages that others installed, built files, and the project that an example's PRP works on. */
const NO_SOURCES = /(^|\/)(node_modules|dist|project|\.run|\.vitepress)\//;

/** The TypeScript and JavaScript files in a folder and below. Paths are relative to the repository, as `folder` is. */
export function listSourceFiles(folder: string, names = /\.tsx?$/): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => names.test(path) && !NO_SOURCES.test(path))
    .map((path) => `${folder}/${path}`);
}

/** `require` and the calls that make one. */
const REQUIRES = /^(?:require|loadPackage|createRequire\(.*\))$/s;

/** Returns the files and packages that a text imports: also types, dynamic imports and calls of `require`. */
export function findImports(text: string): readonly string[] {
  const specifiers = ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName);
  const visit = (node: ts.Node): void => {
    const [first] = ts.isCallExpression(node) && REQUIRES.test(node.expression.getText()) ? node.arguments : [];
    if (first !== undefined && ts.isStringLiteralLike(first)) specifiers.push(first.text);
    ts.forEachChild(node, visit);
  };
  // Most files have none of these calls, and parsing takes long.
  if (/require|loadPackage/i.test(text)) visit(ts.createSourceFile("a.ts", text, ts.ScriptTarget.Latest, true));
  return [...new Set(specifiers)];
}

/** The same, with relative imports resolved: `../b.js` in `src/codec/a.ts` is `src/b.ts`. */
export function resolveImports(file: string, text: string): readonly string[] {
  return findImports(text).map((specifier) =>
    specifier.startsWith(".") ? findSource(join(dirname(file), specifier)) : specifier,
  );
}

/** The TypeScript file of a path that ends in `.js`; a path to another file that exists as it is. */
function findSource(path: string): string {
  const [sibling] = [".ts", ".tsx"].map((ending) => path.replace(/\.js$/, ending)).filter((file) => existsSync(file));
  return sibling ?? (existsSync(path) ? path : path.replace(/\.js$/, ".ts"));
}

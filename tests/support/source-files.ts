import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";

/**
 * Matches paths that aren't sources: installed packages, built files, and the project that an example's PRP changes.
 */
const NO_SOURCES = /(^|\/)(node_modules|dist|project|\.run|\.vitepress)\//;

/** Lists the source files in a folder and below. Like `folder`, paths are relative to the repository. */
export function listSourceFiles(folder: string, names = /\.tsx?$/): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => names.test(path) && !NO_SOURCES.test(path))
    .map((path) => `${folder}/${path}`);
}

/** Matches `require` and the calls that return such a function. */
const REQUIRES = /^(?:require|loadPackage|createRequire\(.*\))$/s;

/** Returns the files and packages that a text imports, including types, dynamic imports and calls of `require`. */
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

/** Returns a text's imports with relative paths resolved: `../b.js` in `src/codec/a.ts` is `src/b.ts`. */
export function resolveImports(file: string, text: string): readonly string[] {
  return findImports(text).map((specifier) =>
    specifier.startsWith(".") ? findSource(join(dirname(file), specifier)) : specifier,
  );
}

/** Returns the TypeScript file of a path that ends in `.js`. Returns the path of another existing file unchanged. */
function findSource(path: string): string {
  const [sibling] = [".ts", ".tsx"].map((ending) => path.replace(/\.js$/, ending)).filter((file) => existsSync(file));
  return sibling ?? (existsSync(path) ? path : path.replace(/\.js$/, ".ts"));
}

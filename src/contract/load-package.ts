import { isAbsolute } from "node:path";

/**
 * Loads a package that isn't imported because it is optional. It is looked up from this file, then from the bundle or
 * the program that this file may be part of.
 *
 * @throws It isn't installed (`MODULE_NOT_FOUND`), or it fails while it is loaded.
 */
export function loadPackage(name: string): unknown {
  return requireThatFinds(name)(name);
}

/** Returns the file of an entry of a package, found as {@link loadPackage} finds it. */
export function resolvePackage(entry: string): string {
  return requireThatFinds(entry).resolve(entry);
}

function requireThatFinds(entry: string): NodeJS.Require {
  // webpack replaces an imported `createRequire` by a function that can't be called. It leaves this one alone.
  const { createRequire } = process.getBuiltinModule("node:module");
  let failure: unknown;
  for (const file of listOrigins()) {
    try {
      const require = createRequire(file);
      require.resolve(entry);
      return require;
    } catch (error) {
      failure ??= error;
    }
  }
  throw failure;
}

/** The files to look up packages from. */
function listOrigins(): readonly string[] {
  // In a CommonJS bundle it may be empty. webpack writes the path of the machine that made the bundle here.
  const url: string | undefined = import.meta.url;
  // In an ES module by webpack, nothing else names a file where the bundle runs.
  const [, program = ""] = process.argv;
  return [url, commonJsFile(), isAbsolute(program) ? program : undefined].filter((file) => file !== undefined);
}

/** Returns the file of the CommonJS module that this code was bundled into; `undefined` in an ES module. */
function commonJsFile(): string | undefined {
  try {
    return __filename;
  } catch {
    // `typeof` would not tell: webpack takes it for "string" in ES modules too.
    return undefined;
  }
}

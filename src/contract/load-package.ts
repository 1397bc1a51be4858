import { isAbsolute } from "node:path";

/**
 * Loads a package that isn't imported because it is optional. It is looked up from this file, then from the bundle or
 * the program that this file may be part of.
 *
 * @throws The package isn't installed (`MODULE_NOT_FOUND`), or it fails while it is loaded.
 */
export function loadPackage(name: string): unknown {
  return requireThatFinds(name)(name);
}

/** Returns the file of a package's entry, found as {@link loadPackage} finds it. */
export function resolvePackage(entry: string): string {
  return requireThatFinds(entry).resolve(entry);
}

function requireThatFinds(entry: string): NodeJS.Require {
  // webpack replaces an imported `createRequire` with a function that can't be called, but doesn't change this form.
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

/** Lists the files to look up packages from. */
function listOrigins(): readonly string[] {
  // In a CommonJS bundle, the URL may be empty. webpack replaces it with a path on the machine that made the bundle.
  const url: string | undefined = import.meta.url;
  // In an ES module built by webpack, only this names a file on the machine where the bundle runs.
  const [, program = ""] = process.argv;
  return [url, commonJsFile(), isAbsolute(program) ? program : undefined].filter((file) => file !== undefined);
}

/** Returns the file of the CommonJS module that this code was bundled into; `undefined` in an ES module. */
function commonJsFile(): string | undefined {
  try {
    return __filename;
  } catch {
    // `typeof __filename` is no test: webpack replaces it with "string" in ES modules too.
    return undefined;
  }
}

import { createRequire } from "node:module";

/**
 * Returns a `require` that resolves packages from this file. In a CommonJS bundle `import.meta` is empty; there it uses
 * `__filename`.
 */
export function ownRequire(): NodeJS.Require {
  const url: string | undefined = import.meta.url;
  return createRequire(url ?? __filename);
}

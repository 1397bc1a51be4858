import { createRequire } from "node:module";

/**
 * Finds packages from where this file is. A bundler that writes CommonJS leaves `import.meta` empty; there the bundle has a
 * `__filename`.
 */
export function ownRequire(): NodeJS.Require {
  const url: string | undefined = import.meta.url;
  return createRequire(url ?? __filename);
}

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { ConformanceModule } from "./harness.js";

/** Returns the URL of a harness's module, which may be given as a path. */
export function urlOfModule(module: URL | string): string {
  if (module instanceof URL) return module.href;
  return module.startsWith("file:") ? module : pathToFileURL(resolve(module)).href;
}

/** Imports a harness's module. */
export async function loadModule(url: string): Promise<ConformanceModule> {
  const module: unknown = await import(/* @vite-ignore */ /* webpackIgnore: true */ url);
  if (!isConformanceModule(module)) throw new TypeError(`${url} must export a function open(location).`);
  return module;
}

function isConformanceModule(module: unknown): module is ConformanceModule {
  return typeof module === "object" && module !== null && "open" in module && typeof module.open === "function";
}

/** Returns the code of a Waymark error, or the name of another error. */
export function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return "code" in error ? String(error.code) : error.name;
}

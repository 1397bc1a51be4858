/** The code of an error of Waymark, or the name of another one. */
export function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return "code" in error ? String(error.code) : error.name;
}

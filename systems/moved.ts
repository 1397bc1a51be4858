/**
 * Takes the place of an export that has moved. Calling it throws an error that names the new place. Without it, an old
 * import would fail with Node's "does not provide an export". The published types don't have it.
 *
 * @param to - The entry that exports it now.
 */
export function moved(name: string, to: string): () => never {
  // No arrow function, because programs call some of the moved exports with `new`.
  function gone(): never {
    throw new TypeError(`${name} has moved to ${to}. Run: npm install waymark-runners, and import it from "${to}".`);
  }
  return gone;
}

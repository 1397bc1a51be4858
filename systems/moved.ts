/**
 * Stands where an export was, so that an old import says where it is now instead of Node's "does not provide an export". The
 * published types don't have it.
 *
 * @param to - The entry that exports it now.
 */
export function moved(name: string, to: string): () => never {
  // No arrow function: programs call some of them with `new`.
  function gone(): never {
    throw new TypeError(`${name} has moved to ${to}. Run: npm install waymark-runners, and import it from "${to}".`);
  }
  return gone;
}

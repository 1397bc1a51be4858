/**
 * Returns the value that all copies of this package in this process share, and makes it if there is none yet. A process
 * may load several copies: a globally installed command runs a project's program, which uses the project's own copy.
 * State of one copy, such as a cache, stays in its module.
 *
 * @param name - Ends with a version. Change it with the value's type, so that copies of other versions don't share it.
 */
export function processState<Value extends object>(name: `${string}.${number}`, make: () => Value): Value {
  const key = Symbol.for(`waymark.${name}`);
  const shared: Value | undefined = Reflect.get(globalThis, key);
  if (shared !== undefined) return shared;
  const made = make();
  Object.defineProperty(globalThis, key, { value: made });
  return made;
}

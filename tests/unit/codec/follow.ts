/**
 * Returns the value at a path of formatPath in `root`, or the error of reading it. Written from the documented grammar
 * only.
 */
export function follow(root: unknown, path: string): unknown {
  if (!path.startsWith("$")) throw new Error(`${path} is no path.`);
  let rest = path.slice(1);
  let value = root;
  while (rest !== "") {
    const [step, next] = firstStep(value, rest);
    try {
      value = next();
    } catch (error) {
      return error;
    }
    rest = rest.slice(step.length);
  }
  return value;
}

function firstStep(value: unknown, rest: string): [string, () => unknown] {
  const holder = Object(value) as object;
  const entry = /^\.(keys|values)\(\)\[(\d+)\]/.exec(rest);
  if (entry) {
    const [step, into, at] = entry;
    const collection = holder as ReadonlyMap<unknown, unknown>;
    return [step, () => [...(into === "keys" ? collection.keys() : collection.values())][Number(at)]];
  }
  const get = /^\.get\(("(?:[^"\\]|\\.)*")\)/.exec(rest);
  if (get) return [get[0], () => (holder as ReadonlyMap<unknown, unknown>).get(JSON.parse(get[1]!))];
  const symbol = /^\[(Symbol\([\w.]*\))\]/.exec(rest);
  if (symbol) {
    const key = Object.getOwnPropertySymbols(holder).find((each) => String(each) === symbol[1]);
    return [symbol[0], () => Reflect.get(holder, key!)];
  }
  const name = /^\.([A-Za-z_$][\w$]*)|^\[(\d+)\]|^\[("(?:[^"\\]|\\.)*")\]/.exec(rest);
  if (!name) throw new Error(`${rest} begins with no step.`);
  const key = name[1] ?? name[2] ?? (JSON.parse(name[3]!) as string);
  return [name[0], () => Reflect.get(holder, key)];
}

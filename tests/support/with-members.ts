/** Returns a proxy of an object with some members replaced. Other methods keep the object as `this`. */
export function withMembers<Of extends object>(
  object: Of,
  members: { readonly [Key in keyof Of]?: Of[Key] | undefined },
): Of {
  return new Proxy(object, {
    get(target, key) {
      if (Object.hasOwn(members, key)) return Reflect.get(members, key);
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

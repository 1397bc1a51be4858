/** Returns a proxy of `target` in which `members` replace members of `target`. */
export function withMembers<Target extends object>(target: Target, members: Partial<Target>): Target {
  return new Proxy(target, {
    get(_, key) {
      const member: unknown = Reflect.get(key in members ? members : target, key);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

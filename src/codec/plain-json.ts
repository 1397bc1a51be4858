/** What to do where a value doesn't fit plain JSON. */
export const PLAIN_ADVICE =
  "This format is plain JSON, which would lose or change it: leave it out, or save it as a string, a number or an array.";

/** A value that JSON loses or changes, in words: by the tag that it would need, and the JSON in that tag. */
export function lossOf(tag: string, json?: string): string {
  switch (tag) {
    case "undefined":
      return "undefined";
    case "number":
      return json?.slice(1, -1) ?? "no finite number";
    case "hole":
      return "an empty place of an array";
    case "NullObject":
      return "an object without a prototype";
    default:
      return /^[AEIO]/.test(tag) ? `an ${tag}` : `a ${tag}`;
  }
}

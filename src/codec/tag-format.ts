/**
 * The format of `json-tagged`: JSON in which every object with the key `$waymark` is a tag, and stands for a value that
 * JSON has no place for. What each tag's `value` holds:
 *
 * | tag | value |
 * | --- | --- |
 * | `undefined`, `hole` | none; a hole stands in an array only |
 * | `number` | `"NaN"`, `"Infinity"`, `"-Infinity"` or `"-0"` |
 * | `BigInt` | decimal digits, or `0x…` where there are more than a thousand of them |
 * | `Date` | ISO 8601 as `toISOString` gives it; `null` for an invalid date |
 * | `RegExp` | `{ source, flags }`, and `lastIndex` where it isn't 0 |
 * | `URL` | its `href` |
 * | `Map` | an array of `[key, value]` |
 * | `Set` | an array of items |
 * | `ArrayBuffer`, `DataView`, `Buffer`, `Uint8Array` and every other typed array | base64 of the bytes, elements in little-endian |
 * | `Error` | `{ class, name, message, stack, cause, errors, hidden, props }`, each but `class` where it is there: see `ErrorBody` |
 * | `Object` | a plain object that has a key `$waymark` itself |
 * | `NullObject` | an object whose prototype is `null` |
 *
 * In the last two, `value` is the object as it is, and never a tag.
 */
export const TAG = "$waymark";

/**
 * How deep the written JSON may nest, arrays and objects counted alike: a plain container is one level, an Error two, a
 * Map three. Walks are recursive, and so is `JSON.stringify` in whatever reads the text: both are far from the end of
 * the stack here. It is also where SQLite's JSON functions end.
 */
export const MAX_NESTING = 1000;

/** Above it a BigInt is written in hexadecimal, which takes linear time both ways; decimal digits take far more. */
export const MAX_DECIMAL_DIGITS = 1000;

/**
 * The body of an Error's tag. `class` is the built-in class it comes back as. The next five are its own non-enumerable
 * properties of that name, as engines define them (`name` may be inherited, and is left out where the class has it
 * anyway); `hidden` holds all other non-enumerable ones, `props` the enumerable ones.
 */
export const ERROR_PROPERTIES: readonly string[] = ["name", "message", "stack", "cause", "errors"];

/** The same for a DOMException, whose name and message are not properties of its own. */
export const DOM_EXCEPTION_PROPERTIES: readonly string[] = ["stack", "cause", "errors"];

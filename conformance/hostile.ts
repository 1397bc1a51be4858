import type { JsonObject } from "../src/contract/checkpoint.js";

/**
 * Names that a file system, a query language, a line format or a case-insensitive comparison may confuse, misread or
 * refuse. All names are different, well-formed and at most 512 UTF-16 units long, so they are valid task ids and
 * checkpoint ids.
 */
export const HOSTILE_NAMES: readonly string[] = [
  // Names that differ only in case or normal form: é is composed or decomposed, and K may be the kelvin sign.
  ...["Task", "task", "TASK", "tasK", "caf\u00e9", "cafe\u0301", "K", "\u212a", "stra\u00dfe", "strasse"],
  // Paths, and names that careless escaping would make equal.
  ...[".", "..", "...", "/", "//", "a/b", "a/../b", "a\\b", "a//b", "../../up", "/etc/passwd", "C:\\x", "~", "-rf"],
  ...["a%b", "a%2fb", "a%2Fb", "a%252fb", "%", "%00", "a_b", "a-b", "a+b", "a b", "a@b", "a~b", "a=b", "a,b", "a;b"],
  // Names that some file systems shorten or reserve.
  ...[
    "x",
    "x.",
    "x..",
    "x ",
    " x",
    "con",
    "CON",
    "nul",
    "nul.json",
    "aux.txt",
    "COM1",
    "a:b",
    "a*b",
    "a?b",
    'a"b',
    "a|b",
  ],
  // Names that stores use for their own files.
  ...["checkpoints.json", "000001.json", ".lock", ".tmp", "index", "1", "01", "1e3", "null", "undefined", "all", "*"],
  // Names of properties that every object has.
  ...["__proto__", "constructor", "hasOwnProperty", "toString", "prototype", "length", "then"],
  // Names with meanings in query languages, formats and templates.
  ...[
    "'",
    "''",
    '"',
    "`",
    "$1",
    "$" + "{x}",
    "{}",
    "[]",
    "--",
    "'; DROP TABLE checkpoints; --",
    "<a>&amp;",
    "\\",
    "\\n",
  ],
  // Control characters, line ends of every kind, invisible characters and direction marks.
  ...["\0", "a\0", "a\0b", "\n", "a\nb", "a\r\nb", "a\rb", "a\u2028b", "a\u2029b", "a\u0085b", "\t", "\x7f", "\x1b[2J"],
  ...[" ", "\u00a0", "\u200b", "\ufeff", "a\ufeff", "\u202eabc", "\ufffd", "\uffff", "\u{10ffff}"],
  // Names with characters outside the basic plane, and other wide characters.
  ...["😀", "😁", "👩‍👩‍👧", "日本語", "ﾃｽﾄ", "～"],
  // Names that are too long for a file name, and names that differ only in the last unit.
  ...["L".repeat(255), "L".repeat(256), `${"L".repeat(511)}x`, `${"L".repeat(511)}y`],
  ...[`${"é".repeat(511)}x`, `${"é".repeat(511)}y`, `${"😀".repeat(255)}xx`, `${"😀".repeat(255)}xy`, "/".repeat(512)],
];

/** Text that is easily damaged: bytes, lines and escapes. */
export const HOSTILE_TEXTS: readonly string[] = [
  "",
  " ",
  "\0",
  "a\0b",
  "one\ntwo\r\nthree\rfour\u2028five\u2029six\u0085seven\vnine\f",
  '"state":{"x":1},\n"state":',
  '{"taskId":"forged","id":"forged","sequence":99}\n',
  '\\u0000 \\n \\\\ \\" " \' ` $' + "{x} %s %d",
  "\ufeffwith a byte order mark",
  "e\u0301 is not \u00e9",
  "😀 👩‍👩‍👧 \u{10ffff} \uffff \ufffd",
  "null",
  "undefined",
  "__proto__",
  "-----BEGIN-----",
];

/** Metadata with keys that every object has, unsorted keys, and all hostile texts as values. */
export const HOSTILE_METADATA: JsonObject = JSON.parse(
  `{"__proto__":{"polluted":true},"constructor":{"prototype":null},"z":1,"a":[{"__proto__":[]}],"":{"":""},"toJSON":"no","texts":${JSON.stringify(HOSTILE_TEXTS)}}`,
);

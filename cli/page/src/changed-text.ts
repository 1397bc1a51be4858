/** Two texts, split into their common start and end, and the part that differs. */
export interface ChangedText {
  readonly start: string;
  readonly from: string;
  readonly to: string;
  readonly end: string;
}

/** Finds what two texts have in common at their start and end, cut at words. */
export function changedText(from: string, to: string): ChangedText {
  const most = Math.min(from.length, to.length);
  let start = 0;
  while (start < most && from[start] === to[start]) start += 1;
  start = wordStart(from, start);
  let end = 0;
  while (end < most - start && from[from.length - 1 - end] === to[to.length - 1 - end]) end += 1;
  end = from.length - wordEnd(from, from.length - end);
  return {
    start: from.slice(0, start),
    from: from.slice(start, from.length - end),
    to: to.slice(start, to.length - end),
    end: from.slice(from.length - end),
  };
}

/** Returns the start of the word at an offset, which also never cuts a surrogate pair. */
function wordStart(text: string, offset: number): number {
  let start = offset;
  while (start > 0 && !/\s/.test(text[start - 1] ?? " ")) start -= 1;
  return start;
}

function wordEnd(text: string, offset: number): number {
  let end = offset;
  while (end < text.length && !/\s/.test(text[end] ?? " ")) end += 1;
  return end;
}
